"""Mutation of a pod that is being created, as a pure function of the pod and the caches."""

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

# Fields of a pod that the webhook changes in addition to annotations. The patch replaces whole fields.
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
    """Inputs of the mutation.

    Attributes:
        image: accelkit image, for the init containers that fill private copies.
        find_hosts: function that returns the hostname labels of the nodes where a cache is ready. If nodes do not store
            the files of the cache, it returns the labels of the nodes with compatible cards.
        build_image_volume: function that returns the image volume source for a digest of a cache, and the folder of the
            cache in the image; None if the cache is not delivered as an image volume.
    """

    image: str
    find_hosts: FindHosts = lambda _cache: ()
    build_image_volume: ImageVolume = lambda _cache, _digest: None


@dataclass(frozen=True, slots=True)
class Mutation:
    """Result of the mutation of a pod.

    Attributes:
        patch: JSON Patch; empty if the pod is unchanged.
        warnings: warnings for the client.
        refusal: reason why the pod must not be created; empty if it may be created.
        unknown: names of unknown claims and caches in the pod, which a lookup in the API server may find.
    """

    patch: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str = ""
    unknown: tuple[str, ...] = ()


def is_concerned(pod: Object, namespace: str, caches: Iterable[Cache]) -> bool:
    """Return whether a pod uses caches according to its volumes and annotations, so that its other fields must be read.

    Args:
        pod: pod with its name, annotations and volumes.
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
    """Return the result of the mutation of a pod that is being created.

    The mutation is idempotent, so other webhooks can run before and after it.

    Args:
        pod: pod from the API server, or only the fields that the mutation uses; it is not modified.
        namespace: namespace of the pod from the review, because the pod may not contain it yet.
        caches: caches of all namespaces.
        tools: inputs of the mutation.
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
        # For JSON data, this is much faster than a deep copy.
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
        raise ReplacementError(
            f"volume {folder} exposes the kernel caches of the node; mount the claim of a cache instead"
        )
    warnings: list[str] = []
    for volume in list(pod["spec"].get("volumes") or []):
        name = get_claim(volume)
        claim = claims.get(name)
        owned = name_ephemeral_claim(pod, volume)
        if owned in claims or find_unknown_digest(claims, owned):
            raise ReplacementError(
                f"claim {owned} of ephemeral volume {volume.get('name')} has the name of a kernel cache claim; "
                f"rename the volume, or mount the cache through its claim"
            )
        if claim is not None:
            _check(claim, namespace, tools)
            warnings += replace_volume(pod, volume, claim, tools.image, tools.build_image_volume)
            _prefer(pod, claim, tools)
        elif cache := find_unknown_digest(claims, name):
            warnings.append(f"claim {name} has no current digest of kernel cache {cache}; mount claim {cache} instead")
    requests = parse_requests(pod["metadata"].get("annotations") or {}, list_containers(pod))
    for request in requests:
        requested = claims.get(request.cache)
        if requested is None:
            known = ", ".join(sorted(each for each in claims if claims[each].cache.metadata.name == each)) or "none"
            raise UnknownCacheError(
                request.cache,
                f"annotation {CACHE_MOUNT_ANNOTATION} names kernel cache {request.cache!r}, which does not exist in "
                f"namespace {namespace!r}; existing caches: {known}",
            )
        _check(requested, namespace, tools)
        warnings += inject(pod, request, requested, tools.image, tools.build_image_volume)
        _prefer(pod, requested, tools)
    return warnings + compare_environment(pod, claims)


def _check(claim: CacheClaim, namespace: str, tools: Tools) -> None:
    # Without an image volume, a pod of a cache with delivery `image` would wait for a claim that is never created.
    has_image = bool(claim.digest) and tools.build_image_volume(claim.cache, claim.digest) is not None
    if refusal := claim.find_refusal(namespace, has_image=has_image):
        raise ReplacementError(refusal)


def _prefer(pod: Object, claim: CacheClaim, tools: Tools) -> None:
    # Prefer nodes only for the current digest, because it is unknown which nodes have a previous digest.
    if claim.digest in {"", claim.cache.status.resolved_digest}:
        prefer_nodes(pod, tools.find_hosts(claim.cache))


def _annotate(pod: Object, claims: CacheClaims, *, handled: bool) -> None:
    """Write annotations with the result of the mutation, and replace values that other clients have set.

    The annotation that lists digests is always added to a pod that uses caches, possibly with an empty value. Admission
    policies reject such a pod if the annotation is missing, because the webhook has not processed the pod.
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
    """Return a patch operation for each changed annotation, because the pod's other annotations may not be decoded."""
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
    """Return the JSON Pointer to an annotation."""
    return f"{_ANNOTATIONS}/{key.replace('~', '~0').replace('/', '~1')}"
