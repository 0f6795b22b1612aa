"""Reader of the data for predictions: deprecated APIs in use, devices, and kernel caches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from accelkit.enablement.drivers.future.answers import RequestedApi
from accelkit.enablement.drivers.future.kubernetes import load_table
from accelkit.errors import ApiError, CacheError, RegistryError
from accelkit.gkm.names import API
from accelkit.kernelcache.formats import ImageLabels
from accelkit.kernelcache.formats.cache_image import read_cache_image
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import build_collection_path
from accelkit.kube.side_by_side import request_all
from accelkit.model.object_meta import ObjectIdentity

_REQUESTED: Final = re.compile(rb"^apiserver_requested_deprecated_apis\{([^}]*)\} 1(?:\.0)?\s*$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
# The time limit for all cache images, whose registries users choose, and the number of parallel requests.
_CACHES_SECONDS: Final = 120.0
_AT_ONCE: Final = 4
# The newest version is first. A cluster that does not serve any of these versions does not support DRA.
_SLICE_VERSIONS: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")


async def read_requested_apis(api: ApiClient) -> tuple[RequestedApi, ...] | None:
    """Return the deprecated APIs that were requested since the API server started; None if they are unreadable.

    If a cluster has several API servers, only one API server responds, so requests to the other API servers are
    missing.
    """
    try:
        text = await api.get("/metrics")
    except ApiError:
        return None
    return parse_requested_apis(text)


def parse_requested_apis(text: bytes) -> tuple[RequestedApi, ...]:
    """Return the deprecated APIs that the metrics of an API server list."""
    found = list[RequestedApi]()
    for match in _REQUESTED.finditer(text):
        labels = dict(_LABEL.findall(match[1].decode(errors="replace")))
        group, version = labels.get("group", ""), labels.get("version", "")
        api_version = f"{group}/{version}" if group else version
        found.append(RequestedApi(api_version, labels.get("resource", ""), labels.get("removed_release", "")))
    return tuple(sorted(found, key=lambda each: (each.api_version, each.resource)))


class _SliceSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    devices: list[dict[str, Any]] | None = None


class _Slice(msgspec.Struct):
    metadata: ObjectIdentity
    spec: _SliceSpec = msgspec.field(default_factory=_SliceSpec)


async def read_slice_fields(api: ApiClient) -> dict[str, frozenset[str]] | None:
    """Return the DRA features that each node's ResourceSlices use; None if the ResourceSlices are unreadable."""
    slices: list[_Slice] = []
    for version in _SLICE_VERSIONS:
        try:
            slices, _ = await list_all(api, build_collection_path(version, "resourceslices"), _Slice)
        except ApiError as exc:
            if not exc.not_found:
                return None
        else:
            break
    found: dict[str, frozenset[str]] = {}
    for each in slices:
        fields = find_fields(each.spec.devices or ())
        if each.spec.node_name and fields:
            found[each.spec.node_name] = found.get(each.spec.node_name, frozenset()) | fields
    return found


def find_fields(devices: Iterable[dict[str, Any]]) -> frozenset[str]:
    """Return the gated fields that a ResourceSlice uses; `devices` is included if the slice contains any devices."""
    known = load_table().gates.keys()
    found = {"devices"} & known if devices else set[str]()
    for device in devices:
        # In v1beta1, all fields except the name are nested one level deeper.
        whole = {**device, **(device.get("basic") or {})}
        found |= {field for field in known if whole.get(field)}
    return frozenset(found)


class _CacheSpec(msgspec.Struct):
    image: str = ""


class _CacheStatus(msgspec.Struct, rename="camel"):
    resolved_digest: str = ""


class _Cache(msgspec.Struct):
    metadata: ObjectIdentity
    spec: _CacheSpec = msgspec.field(default_factory=_CacheSpec)
    status: _CacheStatus = msgspec.field(default_factory=_CacheStatus)

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}" if self.metadata.namespace else self.metadata.name


async def read_caches(api: ApiClient, settings: RegistrySettings) -> dict[str, ImageLabels | None] | None:
    """Return the image labels of all kernel caches, by name; None if the caches cannot be listed.

    If these kinds do not exist, the cluster has no caches. The function reads the digest that the controller verified,
    not the current tag. It skips namespaced caches without such a digest, because nodes do not load them, and because
    they may refer to any registry.
    """
    caches: list[_Cache] = []
    for plural in ("gkmcaches", "clustergkmcaches"):
        try:
            found, _ = await list_all(api, build_collection_path(API, plural), _Cache)
        except ApiError as exc:
            if not exc.not_found:
                return None
        else:
            caches += [each for each in found if not each.metadata.namespace or each.status.resolved_digest]
    names: dict[tuple[str, str], list[str]] = {}
    for cache in caches:
        names.setdefault((cache.spec.image, cache.status.resolved_digest), []).append(cache.name)
    labels: dict[str, ImageLabels | None] = dict.fromkeys((cache.name for cache in caches), None)
    async with RegistryClient(settings) as client:

        async def read(image: tuple[str, str]) -> None:
            labels.update(dict.fromkeys(names[image], await _read_labels(client, *image)))

        # Labels that were not read before the time limit remain unknown.
        await request_all(names, read, at_once=_AT_ONCE, seconds=_CACHES_SECONDS)
    return labels


async def _read_labels(client: RegistryClient, image: str, digest: str) -> ImageLabels | None:
    try:
        reference = parse_reference(image)
        if digest:
            reference = reference.with_digest(digest)
        raw = await client.read_manifest(reference)
        return (await read_cache_image(client, reference.with_digest(raw.digest), raw)).labels
    except (CacheError, RegistryError):
        return None
