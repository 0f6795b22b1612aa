"""Change of a pod that is being created: a pure function of the pod and the caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from accelkit.cachecontroller.webhook.annotation import AnnotationError, parse_requests
from accelkit.cachecontroller.webhook.cache_claims import (
    CacheClaim,
    CacheClaims,
    find_claim,
    find_unknown_digest,
    list_claims,
)
from accelkit.cachecontroller.webhook.comparison import compare_environment
from accelkit.cachecontroller.webhook.copying import PREFIX
from accelkit.cachecontroller.webhook.injection import UnknownCacheError, inject, prefer_nodes
from accelkit.cachecontroller.webhook.pod_size import describe_excess
from accelkit.cachecontroller.webhook.pods import (
    Object,
    find_host_folder,
    get_claim,
    list_containers,
    name_ephemeral_claim,
)
from accelkit.cachecontroller.webhook.replacement import ImageVolume, ReplacementError, replace_volume
from accelkit.gkm.objects import Cache
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION, CACHE_PINNED_ANNOTATION, CACHE_WRITABLE_ANNOTATION

# The parts of a pod that are changed, in addition to annotations; each is written as a whole.
_PARTS: Final = (
    ("spec", "volumes"),
    ("spec", "initContainers"),
    ("spec", "containers"),
    ("spec", "ephemeralContainers"),
    ("spec", "affinity"),
)
_ANNOTATIONS: Final = "/metadata/annotations"
FindHosts: TypeAlias = Callable[[Cache], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Tools:
    """Inputs for the change of pods.

    Attributes:
        image: accelkit's image, for the init containers that fill private copies.
        find_hosts: returns the hostname labels of the nodes where a cache is ready; if nodes do not hold its files, of
            the nodes that can load it.
        build_image_volume: returns the source of an image volume for a digest of a cache, and the folder of the cache's
            root in it; None if the cache is not delivered as an image volume.
    """

    image: str
    find_hosts: FindHosts = lambda _cache: ()
    build_image_volume: ImageVolume = lambda _cache, _digest: None


@dataclass(frozen=True, slots=True)
class Mutation:
    """Result for a pod.

    Attributes:
        patch: JSON Patch; empty if the pod does not change.
        warnings: warnings for the client.
        refusal: why the pod must not be created; empty if it may.
        unknown: names of unknown claims and caches in the pod; a later lookup may find them.
    """

    patch: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str = ""
    unknown: tuple[str, ...] = ()


def is_concerned(pod: Object, namespace: str, caches: Iterable[Cache]) -> bool:
    """Return whether the decision about a pod needs more than its volumes and annotations.

    Args:
        pod: with its name, its annotations and its volumes.
        namespace: namespace of the pod.
        caches: caches of all namespaces.
    """
    if any(
        each in _get_annotations(pod)
        for each in (CACHE_MOUNT_ANNOTATION, CACHE_PINNED_ANNOTATION, CACHE_WRITABLE_ANNOTATION)
    ):
        return True
    claims = list_claims(caches, namespace)
    volumes = pod["spec"].get("volumes") or []
    return _count_concerned(_name_claims(pod, volumes), claims) > 0 or any(find_claim(each, claims) for each in volumes)


def mutate(pod: Object, namespace: str, caches: Iterable[Cache], tools: Tools) -> Mutation:
    """Return the result for a pod that is being created.

    The change is idempotent, so that other webhooks may run before and after it.

    Args:
        pod: the pod from the API server, or the used parts of it; it is not modified.
        namespace: namespace of the pod, even if the pod itself names none yet.
        caches: caches of all namespaces.
        tools: inputs for the change.
    """
    claims = list_claims(caches, namespace)
    parts = {part: dict(pod.get(part) or {}) for part in ("metadata", "spec")}
    changed = {**pod, **parts}
    named = _name_claims(changed, changed["spec"].get("volumes") or [])
    concerned = _count_concerned(named, claims)
    requests_cache = concerned > 0 or CACHE_MOUNT_ANNOTATION in _get_annotations(changed)
    if requests_cache:
        if excess := describe_excess(changed, concerned):
            return Mutation(refusal=excess)
        # This is much faster than a deep copy, and a pod is JSON.
        changed = msgspec.json.decode(msgspec.json.encode(changed))
    try:
        warnings = _change(changed, namespace, claims, tools) if requests_cache else []
    except (AnnotationError, ReplacementError) as exc:
        return Mutation(refusal=str(exc), unknown=(exc.cache,) if isinstance(exc, UnknownCacheError) else ())
    _annotate(changed, claims, handled=requests_cache)
    unknown = tuple(each for each in named if each and each not in claims)
    return Mutation(_build_patch(pod, changed), tuple(dict.fromkeys(warnings)), unknown=unknown)


def _get_annotations(pod: Object) -> Mapping[str, Any]:
    return pod["metadata"].get("annotations") or {}


def _name_claims(pod: Object, volumes: Iterable[Object]) -> list[str]:
    return [get_claim(each) or name_ephemeral_claim(pod, each) for each in volumes]


def _count_concerned(named: Iterable[str], claims: CacheClaims) -> int:
    return sum(1 for each in named if each in claims or find_unknown_digest(claims, each))


def _change(pod: Object, namespace: str, claims: CacheClaims, tools: Tools) -> list[str]:
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
            _check(claim, namespace, tools)
            warnings += replace_volume(pod, volume, claim, tools.image, tools.build_image_volume)
            _prefer(pod, claim, tools)
        elif cache := find_unknown_digest(claims, name):
            warnings.append(f"claim {name} is of no digest that kernel cache {cache} has; claim {cache} always is")
    requests = parse_requests(pod["metadata"].get("annotations") or {}, list_containers(pod))
    for request in requests:
        requested = claims.get(request.cache)
        if requested is None:
            known = ", ".join(sorted(each for each in claims if claims[each].cache.metadata.name == each)) or "none"
            raise UnknownCacheError(
                request.cache,
                f"annotation {CACHE_MOUNT_ANNOTATION} names kernel cache {request.cache!r}, which namespace "
                f"{namespace!r} does not have; it has {known}",
            )
        _check(requested, namespace, tools)
        warnings += inject(pod, request, requested, tools.image, tools.build_image_volume)
        _prefer(pod, requested, tools)
    return warnings + compare_environment(pod, claims)


def _check(claim: CacheClaim, namespace: str, tools: Tools) -> None:
    # Without its image volume, such a pod would wait for a claim that is never created.
    has_image = bool(claim.digest) and tools.build_image_volume(claim.cache, claim.digest) is not None
    if refusal := claim.find_refusal(namespace, has_image=has_image):
        raise ReplacementError(refusal)


def _prefer(pod: Object, claim: CacheClaim, tools: Tools) -> None:
    # The preference only covers the current digest, because the nodes with a former one are unknown.
    if claim.digest in {"", claim.cache.status.resolved_digest}:
        prefer_nodes(pod, tools.find_hosts(claim.cache))


def _annotate(pod: Object, claims: CacheClaims, *, handled: bool) -> None:
    """Write what was done, replacing what any other client wrote there.

    A pod that concerns caches always gets the annotation of digests, even with no value. Admission policies refuse such
    a pod without it, because the webhook did not handle it.
    """
    annotations = dict(pod["metadata"].get("annotations") or {})
    digests, copies = set[str](), set[str]()
    sources = dict[str, CacheClaim]()
    for volume in pod["spec"].get("volumes") or []:
        claim = find_claim(volume, claims)
        if claim is not None:
            sources.setdefault(str(volume.get("name")), claim)
            if claim.digest:
                digests.add(claim.digest)
    for container in pod["spec"].get("initContainers") or []:
        name = str(container.get("name"))
        mounted = [str(each.get("name")) for each in container.get("volumeMounts") or []]
        if name.startswith(PREFIX) and name in mounted:
            copies.update(f"{name}={sources[each].cache.key}" for each in mounted if each in sources)
    for key, values, always in (
        (CACHE_PINNED_ANNOTATION, digests, handled),
        (CACHE_WRITABLE_ANNOTATION, copies, False),
    ):
        if values or always:
            annotations[key] = ",".join(sorted(values))
        else:
            annotations.pop(key, None)
    if annotations or pod["metadata"].get("annotations"):
        pod["metadata"]["annotations"] = annotations


def _build_patch(before: Object, after: Object) -> tuple[Mapping[str, Any], ...]:
    patch = _patch_annotations(before, after)
    for outer, inner in _PARTS:
        former, present = (before.get(outer) or {}).get(inner), after[outer].get(inner)
        if former != present:
            # "add" also replaces an existing value.
            patch.append({"op": "add", "path": f"/{outer}/{inner}", "value": present})
    return tuple(patch)


def _patch_annotations(before: Object, after: Object) -> list[Mapping[str, Any]]:
    """Return a step for each changed annotation, because the pod may have annotations that were not decoded."""
    former = (before.get("metadata") or {}).get("annotations")
    present = after["metadata"].get("annotations") or {}
    if former is None:
        return [{"op": "add", "path": _ANNOTATIONS, "value": present}] if present else []
    added = [
        {"op": "add", "path": _point_to(key), "value": value}
        for key, value in present.items()
        if former.get(key) != value
    ]
    return [*added, *({"op": "remove", "path": _point_to(key)} for key in former if key not in present)]


def _point_to(key: str) -> str:
    """Return the JSON Pointer of an annotation."""
    return f"{_ANNOTATIONS}/{key.replace('~', '~0').replace('/', '~1')}"
