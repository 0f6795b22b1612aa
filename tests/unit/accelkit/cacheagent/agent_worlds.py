"""What an agent knows at one moment, made by hand."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from accelkit.cacheagent.planning.desired_caches import DesiredCache
from accelkit.cacheagent.planning.observed import MountingPod, OwnNode, Pod
from accelkit.cacheagent.planning.world import Disk, ImageFacts, ImagePolicies, Stored, World
from accelkit.gkm import names
from accelkit.kernelcache.compatibility.node_facts import NodeHardware
from accelkit.kernelcache.formats import ImageLabels, Target
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.model.card import Card

A, B, C = ("sha256:" + letter * 64 for letter in "abc")
MOUNT = "/root/.triton/cache"
GIB = 1 << 30
TODAY = 1_000_000.0
LABELS = ImageLabels(format="triton", targets=(Target("cuda", "90", 32),), size_bytes=100)
FOREIGN = ImageLabels(format="triton", targets=(Target("hip", "gfx942", 64),), size_bytes=100)
CARD = Card("card-0", "simulated", "sim", GIB, index=0, target="cuda:90")
NODE = OwnNode(NodeHardware.from_inventory((CARD,), cpu_architecture="amd64"), (CARD,), "host-0")


def folder(digest: str) -> str:
    return names.name_folder(digest, MOUNT)


def link(key: str = "team/add") -> str:
    return World.name_link(key)


def desired(digest: str = A, key: str = "team/add", **changes: Any) -> DesiredCache:
    """A cache that the controller found verified."""
    given = {
        "namespaces": (key.partition("/")[0],),
        "image": parse_reference("q.io/team/add:v1").with_digest(digest),
        "mount_path": MOUNT,
        "folder": folder(digest),
        "verified": True,
        **changes,
    }
    return DesiredCache(key, **given)


def stored(
    *, policies: str = "p", at: float = TODAY - 60, labels: ImageLabels = LABELS, size: int = 100, path: str = MOUNT
) -> Stored:
    return Stored(3, size, labels, {policies: at} if policies else {}, path)


def pod(name: str, *claims: str, namespace: str = "team", starting: bool = False, **copies: str) -> MountingPod:
    named = {copy.replace("_", "-"): claim for copy, claim in copies.items()}
    return MountingPod(f"uid-{name}", namespace, name, frozenset(claims or ("add",)), named, starting=starting)


def world(*desired_caches: DesiredCache, **changes: Any) -> World:
    """A world with these caches, all covered by the policies `p`, and nothing on the disk."""
    given: dict[str, Any] = {
        "now": 1000.0,
        "today": TODAY,
        "node": NODE,
        "desired_caches": {each.key: each for each in desired_caches},
        "image_policies": {
            each.key: ImagePolicies("p", verdict_seconds=86400) for each in desired_caches if each.image
        },
        "disk": Disk(100 * GIB),
        **changes,
    }
    return World(**given)


def image_facts(size: int = 100, labels: ImageLabels = LABELS) -> ImageFacts:
    return ImageFacts(msgspec.structs.replace(labels, size_bytes=size), size)


def read_pod(document: dict[str, Any]) -> Pod:
    """A pod as the API server sends it."""
    return msgspec.json.decode(json.dumps(document), type=Pod)
