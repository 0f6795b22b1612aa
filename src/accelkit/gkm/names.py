"""Names and labels of what is made for a cache, and where its files lie on a node.

Names of caches may have 253 characters, labels and claims have less room: what is too long ends in a hash.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePosixPath
from typing import Final

from accelkit.kube.paths import build_collection_path
from accelkit.model.keys import CACHE_DIGEST_LABEL, CACHE_NAME_LABEL, CACHE_SCOPE_LABEL, COMPONENT_LABEL, PART_OF_LABELS

API: Final = "gkm.io/v1alpha1"
POLICY_API: Final = "accelkit.io/v1alpha1"
CACHES: Final = build_collection_path(API, "gkmcaches")
CLUSTER_CACHES: Final = build_collection_path(API, "clustergkmcaches")
CACHE_NODES: Final = build_collection_path(API, "gkmcachenodes")
CLUSTER_CACHE_NODES: Final = build_collection_path(API, "clustergkmcachenodes")
SIGNER_POLICIES: Final = build_collection_path(POLICY_API, "signerpolicies")

VOLUME_PREFIX: Final = "accelkit-cache-"
FIELD_MANAGER: Final = "accelkit-cache-controller"

# On each node; the agent alone writes there.
HOST_FOLDER: Final = PurePosixPath("/var/lib/accelkit/kernel-caches")
_LINKS: Final = "claims"
# Of the volume of a pod that has the claim of which a private copy is made, where a user asked for it by annotation.
COPY_SOURCE_SUFFIX: Final = "-from"
PINNED_DIGITS: Final = 12
_PINNED: Final = re.compile(rf"(.+)-([0-9a-f]{{{PINNED_DIGITS}}})", re.DOTALL)
_MAX_LABEL: Final = 63
_MAX_NAME: Final = 253
_HASH: Final = 10
# Users choose mount paths: of fewer digits they find two that are alike.
_PATH_DIGITS: Final = 32


def shorten_name(name: str, most: int = _MAX_LABEL) -> str:
    """Return a name of at most so many characters, which tells names apart that begin alike."""
    if len(name) <= most:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    # No name has two dots in a row. Dashes stay: admission policies know a long name by how it begins.
    return f"{name[: most - _HASH - 1].removesuffix('.')}-{digest}"


def build_labels(key: str, digest: str = "") -> dict[str, str]:
    """Return the labels of what is made for a cache.

    Args:
        key: `NAMESPACE/NAME`, or `/NAME`.
        digest: `sha256:…`; empty for what belongs to no digest.
    """
    namespace, _, name = key.partition("/")
    labels = {
        CACHE_NAME_LABEL: shorten_name(name),
        CACHE_SCOPE_LABEL: shorten_name(namespace) if namespace else "cluster",
    }
    if digest:
        labels[CACHE_DIGEST_LABEL] = short_digest(digest)
    return {**PART_OF_LABELS, COMPONENT_LABEL: "kernel-cache", **labels}


def short_digest(digest: str) -> str:
    """Return the first `PINNED_DIGITS` hexadecimal digits of `sha256:…`."""
    return digest.removeprefix("sha256:")[:PINNED_DIGITS]


def name_claim(key: str) -> str:
    """Return the name of the claim that users mount, which is that of the cache."""
    return key.partition("/")[2]


def name_pinned_claim(key: str, digest: str) -> str:
    """Return the name of the claim of one digest."""
    return f"{begin_pinned_claim(key)}-{short_digest(digest)}"


def begin_pinned_claim(key: str) -> str:
    """Return what stands before the dash and the digits in the names of a cache's pinned claims."""
    return shorten_name(name_claim(key), _MAX_NAME - PINNED_DIGITS - 1)


def split_pinned_claim(claim: str) -> tuple[str, str]:
    """Return both parts of the name of a pinned claim, `begin_pinned_claim` and the digits; empty where it is none."""
    found = _PINNED.fullmatch(claim)
    return (found[1], found[2]) if found is not None else ("", "")


def name_volume(key: str, namespace: str, digest: str = "") -> str:
    """Return the name of a PersistentVolume, which is one in the whole cluster.

    Args:
        key: of the cache.
        namespace: whose pods use it.
        digest: of the one that it is pinned to; empty for the one that follows the cache.
    """
    whole = f"{key}\n{namespace}\n{digest}"
    kind = short_digest(digest) if digest else "current"
    return f"{VOLUME_PREFIX}{kind}-{hashlib.sha256(whole.encode()).hexdigest()[:20]}"


def name_private_copy(*parts: str) -> str:
    """Return the name of a private copy: of its volume, and of the init container that fills it.

    Args:
        parts: the name of the volume that is copied, where the pod has one of its own.
    """
    return VOLUME_PREFIX + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


def name_folder(digest: str, mount_path: str) -> str:
    """Return the name of the folder of a digest for a mount path, below `HOST_FOLDER`."""
    name = digest.replace(":", "-")
    # As extraction names it; group files name their kernels by absolute path.
    return f"{name}-{hashlib.sha256(mount_path.encode()).hexdigest()[:_PATH_DIGITS]}" if mount_path else name


def build_cache_path(digest: str, mount_path: str, root: PurePosixPath | Path = HOST_FOLDER) -> str:
    """Return where a node has the files of a digest."""
    return str(root / name_folder(digest, mount_path) / "cache")


def build_link_path(key: str, root: PurePosixPath | Path = HOST_FOLDER) -> str:
    """Return the link that leads to the files of the digest that pods get now, on each node."""
    return str(root / _LINKS / hashlib.sha256(key.encode()).hexdigest()[:20])
