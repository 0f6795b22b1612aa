"""Usage of caches by pods on the node, with the folders that their containers may use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from accelkit.cacheagent.planning.desired_caches import DesiredCache
from accelkit.cacheagent.planning.observed import MountingPod
from accelkit.cacheagent.planning.world import WITHDRAWN, World
from accelkit.gkm import names


@dataclass(frozen=True)
class Usage:
    """Pods on the node that use one cache.

    Attributes:
        pods: pods that may use the cache, keyed by folder.
        following: pods that mount the claim whose path is the link of the cache.
    """

    pods: Mapping[str, tuple[MountingPod, ...]] = field(default_factory=dict)
    following: tuple[MountingPod, ...] = ()

    @property
    def starting(self) -> tuple[MountingPod, ...]:
        """Pods in `following` with containers that have not been created yet."""
        return tuple(pod for pod in self.following if pod.starting)


def owns_claim(desired: DesiredCache, claim: str) -> bool:
    """Return whether a claim belongs to a cache, either as its claim or as a pinned claim of one of its digests."""
    return claim == desired.name or names.split_pinned_claim(claim)[0] == names.begin_pinned_claim(desired.key)


def find_usage(world: World) -> dict[str, Usage]:
    """Return the pods that use each cache, keyed by cache key."""
    # The claims of caches with other deliveries have the same names, but these caches have no files on this node.
    claims, pinned = _index_claims(desired for desired in world.desired_caches.values() if desired.delivered)
    folders = _index_folders(world)
    found: dict[str, dict[str, dict[str, MountingPod]]] = defaultdict(lambda: defaultdict(dict))
    following: dict[str, list[MountingPod]] = defaultdict(list)
    for pod in world.pods:
        for claim in pod.claims:
            for desired in claims.get((pod.namespace, claim), ()):
                following[desired.key].append(pod)
                for folder in _list_followed(world, desired, pod):
                    found[desired.key][folder][pod.uid] = pod
            begins, digits = names.split_pinned_claim(claim)
            for desired in pinned.get((pod.namespace, begins), ()):
                for folder, owners in folders.get(digits, {}).items():
                    # A user may create a claim with the digits of another cache's folder to read this folder or prevent
                    # its deletion.
                    if not owners or desired.key in owners:
                        found[desired.key][folder][pod.uid] = pod
    return {
        key: Usage(
            {folder: tuple(pods.values()) for folder, pods in found.get(key, {}).items()},
            tuple(following.get(key, ())),
        )
        for key in {*found, *following}
    }


def merge_uses(world: World, usage: Mapping[str, Usage]) -> dict[str, dict[str, frozenset[str]]]:
    """Return the folders that pods on the node may use, from recorded uses and current usage.

    The result includes the recorded uses of a pod, because the agent cannot determine when each container was created.
    """
    present = {pod.uid for pod in world.pods}
    uses: dict[str, dict[str, frozenset[str]]] = {
        uid: dict(by_key) for uid, by_key in world.uses.items() if uid in present
    }
    for pod in world.pods:
        if not pod.readable:
            former = uses.setdefault(pod.uid, {})
            former[""] = former.get("", frozenset()).union(world.stored)
    for key, own in usage.items():
        for folder, pods in own.pods.items():
            for pod in pods:
                by_key = uses.setdefault(pod.uid, {})
                by_key[key] = by_key.get(key, frozenset()) | {folder}
    return uses


def _list_followed(world: World, desired: DesiredCache, pod: MountingPod) -> Iterable[str]:
    linked = world.links.get(desired.link, WITHDRAWN)
    recorded = world.uses.get(pod.uid, {}).get(desired.key, frozenset())
    return recorded if linked == WITHDRAWN else {*recorded, linked}


def _index_claims(
    desired_caches: Iterable[DesiredCache],
) -> tuple[dict[tuple[str, str], list[DesiredCache]], dict[tuple[str, str], list[DesiredCache]]]:
    claims: dict[tuple[str, str], list[DesiredCache]] = defaultdict(list)
    pinned: dict[tuple[str, str], list[DesiredCache]] = defaultdict(list)
    for desired in desired_caches:
        base = names.begin_pinned_claim(desired.key)
        for namespace in desired.namespaces:
            claims[namespace, desired.name].append(desired)
            pinned[namespace, base].append(desired)
    return claims, pinned


def _index_folders(world: World) -> dict[str, dict[str, frozenset[str]]]:
    """Return the folders and the keys of their caches, keyed by the digits at the end of pinned claim names.

    The set of keys is empty for a folder without a cache.
    """
    owners: dict[str, set[str]] = defaultdict(set)
    for desired in world.desired_caches.values():
        for begins in desired.folders:
            owners[begins].add(desired.key)
    found: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    for folder in {*world.stored, *(desired.folder for desired in world.desired_caches.values() if desired.folder)}:
        digits = folder.partition("-")[2][: names.PINNED_DIGITS]
        found[digits][folder] = frozenset(owners.get(names.trim_folder(folder), ()))
    return found
