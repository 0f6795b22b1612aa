"""What becomes of a pod that is being created: a pure function of the pod and the caches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from accelkit.cachecontroller.webhook.annotation import AnnotationError, parse_requests
from accelkit.cachecontroller.webhook.claims import CacheClaim, find_claim, find_unknown_digest, list_claims
from accelkit.cachecontroller.webhook.comparison import compare_environment
from accelkit.cachecontroller.webhook.copying import PREFIX
from accelkit.cachecontroller.webhook.injection import UnknownCacheError, inject, prefer_nodes
from accelkit.cachecontroller.webhook.pods import (
    Object,
    find_host_folder,
    find_volume,
    get_claim,
    list_containers,
    name_ephemeral_claim,
)
from accelkit.cachecontroller.webhook.replacement import ImageVolume, ReplacementError, replace_volume
from accelkit.gkm.names import MOUNT_ANNOTATION, PINNED_ANNOTATION, WRITABLE_ANNOTATION
from accelkit.gkm.objects import Cache

# The parts of a pod that are changed; each is written as a whole.
_PARTS: Final = (
    ("metadata", "annotations"),
    ("spec", "volumes"),
    ("spec", "initContainers"),
    ("spec", "containers"),
    ("spec", "ephemeralContainers"),
    ("spec", "affinity"),
)
FindHosts: TypeAlias = Callable[[Cache], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Tools:
    """What pods are changed with.

    Attributes:
        image: of accelkit, for the init containers that fill private copies.
        find_hosts: returns the values of the label kubernetes.io/hostname of the nodes where a cache is ready.
        build_image_volume: returns the source of an image volume for a digest of a cache, and the folder of it that is
            the cache's root; None where the cache does not come to pods so.
    """

    image: str
    find_hosts: FindHosts = lambda _cache: ()
    build_image_volume: ImageVolume = lambda _cache, _digest: None


@dataclass(frozen=True, slots=True)
class Mutation:
    """What becomes of a pod.

    Attributes:
        patch: JSON Patch; empty where it stays as it is.
        warnings: for who creates it.
        refusal: why it may not be created; empty where it may.
        unknown: claims and caches that it names and nobody knows; a moment later they may be known.
    """

    patch: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str = ""
    unknown: tuple[str, ...] = ()


def mutate(pod: Object, namespace: str, caches: Iterable[Cache], tools: Tools) -> Mutation:
    """Return what becomes of a pod that is being created.

    Doing it again changes nothing, so that other webhooks may come between.

    Args:
        pod: as the API server sends it; it stays as it is.
        namespace: of the pod, which a pod without one will get.
        caches: of all namespaces.
        tools: what it is changed with.
    """
    claims = list_claims(caches, namespace)
    changed = copy.deepcopy(pod)
    for part in ("metadata", "spec"):
        changed[part] = changed.get(part) or {}
    annotations = changed["metadata"].get("annotations") or {}
    volumes = changed["spec"].get("volumes") or []
    named = [get_claim(each) or name_ephemeral_claim(changed, each) for each in volumes]
    concerned = any(each in claims or find_unknown_digest(claims, each) for each in named)
    try:
        asks = concerned or MOUNT_ANNOTATION in annotations
        warnings = _change(changed, namespace, claims, tools) if asks else []
    except (AnnotationError, ReplacementError) as exc:
        return Mutation(refusal=str(exc), unknown=(exc.cache,) if isinstance(exc, UnknownCacheError) else ())
    _annotate(changed, claims)
    unknown = tuple(each for each in named if each and each not in claims)
    return Mutation(_build_patch(pod, changed), tuple(dict.fromkeys(warnings)), unknown=unknown)


def _change(pod: Object, namespace: str, claims: Mapping[str, CacheClaim], tools: Tools) -> list[str]:
    if folder := find_host_folder(pod):
        raise ReplacementError(f"volume {folder} leads to the nodes' kernel caches; mount a cache's claim alone")
    warnings: list[str] = []
    for volume in list(pod["spec"].get("volumes") or []):
        name = get_claim(volume)
        claim = claims.get(name)
        owned = name_ephemeral_claim(pod, volume)
        if owned in claims or find_unknown_digest(claims, owned):
            raise ReplacementError(
                f"the claim {owned} of ephemeral volume {volume.get('name')} has the name of one of a kernel cache; "
                f"rename the volume, or mount the cache by its claim"
            )
        if claim is not None:
            _check(claim, namespace)
            warnings += replace_volume(pod, volume, claim, tools.image, tools.build_image_volume)
        elif cache := find_unknown_digest(claims, name):
            warnings.append(f"claim {name} is of no digest that kernel cache {cache} has; claim {cache} always is")
    requests = parse_requests(pod["metadata"].get("annotations") or {}, list_containers(pod))
    for request in requests:
        asked = claims.get(request.cache)
        if asked is None:
            known = ", ".join(sorted(each for each in claims if claims[each].cache.metadata.name == each)) or "none"
            raise UnknownCacheError(
                request.cache,
                f"annotation {MOUNT_ANNOTATION} names kernel cache {request.cache!r}, which namespace {namespace!r} "
                f"does not have; it has {known}",
            )
        _check(asked, namespace)
        warnings += inject(pod, request, asked, tools.image, tools.build_image_volume)
        prefer_nodes(pod, tools.find_hosts(asked.cache))
    return warnings + compare_environment(pod, claims)


def _check(claim: CacheClaim, namespace: str) -> None:
    if refusal := claim.find_refusal(namespace):
        raise ReplacementError(refusal)


def _annotate(pod: Object, claims: Mapping[str, CacheClaim]) -> None:
    """Say what was done, in the place of whatever somebody else says there."""
    annotations = dict(pod["metadata"].get("annotations") or {})
    digests, copies = set[str](), set[str]()
    for volume in pod["spec"].get("volumes") or []:
        claim = find_claim(volume, claims)
        if claim is not None and claim.digest:
            digests.add(claim.digest)
    for container in pod["spec"].get("initContainers") or []:
        name = str(container.get("name"))
        mounted = [str(each.get("name")) for each in container.get("volumeMounts") or []]
        if name.startswith(PREFIX) and name in mounted:
            of = [find_claim(find_volume(pod, each) or {}, claims) for each in mounted]
            copies.update(f"{name}={each.cache.key}" for each in of if each is not None)
    for key, values in ((PINNED_ANNOTATION, digests), (WRITABLE_ANNOTATION, copies)):
        if values:
            annotations[key] = ",".join(sorted(values))
        else:
            annotations.pop(key, None)
    if annotations or pod["metadata"].get("annotations"):
        pod["metadata"]["annotations"] = annotations


def _build_patch(before: Object, after: Object) -> tuple[Mapping[str, Any], ...]:
    patch = []
    for outer, inner in _PARTS:
        former, present = (before.get(outer) or {}).get(inner), after[outer].get(inner)
        if former != present:
            # "add" also replaces what is there.
            patch.append({"op": "add", "path": f"/{outer}/{inner}", "value": present})
    return tuple(patch)
