"""Functions that find and uninstall Helm 3 releases without Helm. A Secret of a release contains the applied objects.

The field `release` of the Secret contains JSON that is compressed with gzip and then encoded twice in base64
(helm.sh/helm/v3/pkg/storage/driver). Each revision has a separate Secret. To uninstall a release, the objects of the
newest revision are deleted first, then the Secrets. Hooks are not executed.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from ruamel.yaml.error import YAMLError

from accelkit.errors import ConfigurationError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.objects import delete_if_present, get_if_present
from accelkit.kube.paths import build_collection_path, build_group_path, build_object_path, build_secrets_path
from accelkit.kube.views.api import ApiResources
from accelkit.kube.views.metadata import PartialObject
from accelkit.model.object_meta import ObjectMeta
from accelkit.yaml import load_yaml_documents

_SECRETS: Final = build_collection_path("v1", "secrets")
_KEEP: Final = "helm.sh/resource-policy"
# Helm 3.2 and later adds these annotations to all objects that it applies.
_RELEASE_NAME: Final = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"
# The maximum size of a Secret is 1 MiB. Data whose decompressed size is more than a hundred times this size is not a
# release.
_UNPACKED_BYTES: Final = 100 * 2**20


class _Secret(msgspec.Struct):
    metadata: ObjectMeta
    data: dict[str, str] = {}


class _Secrets(msgspec.Struct):
    items: list[_Secret] | None = None


class _ChartMetadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Chart(msgspec.Struct, frozen=True):
    metadata: _ChartMetadata = _ChartMetadata()
    values: dict[str, Any] | None = None


class _Stored(msgspec.Struct):
    chart: _Chart = _Chart()
    config: dict[str, Any] | None = None
    manifest: str = ""


@dataclass(frozen=True)
class Release:
    """An installed release.

    Attributes:
        name: the name of the release in `helm list`.
        namespace: the namespace of the release.
        chart: the name of the chart.
        objects: the applied objects, in the order in which Helm applied them.
        secrets: the Secrets of all revisions.
        values: the top-level values of the chart, overridden by the values of the release.
    """

    name: str
    namespace: str
    chart: str
    objects: Sequence[Mapping[str, Any]]
    secrets: Sequence[str]
    values: Mapping[str, Any]


async def list_releases(api: ApiClient, chart_prefix: str) -> list[Release]:
    """Return the releases of charts whose names start with this prefix, sorted by namespace and name.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ConfigurationError: a release cannot be read.
    """
    listed = msgspec.json.decode(await api.get(_SECRETS, query={"labelSelector": "owner=helm"}), type=_Secrets)
    revisions: dict[tuple[str, str], list[_Secret]] = {}
    for secret in listed.items or ():
        if name := _labels(secret).get("name"):
            revisions.setdefault((secret.metadata.namespace, name), []).append(secret)
    releases = []
    for (namespace, name), found in sorted(revisions.items()):
        newest = max(found, key=_read_revision)
        stored = _decode_release(newest)
        if stored.chart.metadata.name.startswith(chart_prefix):
            names = tuple(sorted(secret.metadata.name for secret in found))
            objects = _parse_manifest(stored.manifest, newest.metadata.name)
            values = {**(stored.chart.values or {}), **(stored.config or {})}
            releases.append(Release(name, namespace, stored.chart.metadata.name, objects, names, values))
    return releases


async def uninstall(api: ApiClient, release: Release) -> None:
    """Delete the objects of a release in reverse order, then its Secrets. Skip objects that do not exist.

    A user with write access to Secrets in a namespace can create a release that lists any object. Therefore, an object
    is deleted only if its Helm annotations refer to this release.

    Raises:
        ApiError: the API server rejected the request or did not respond. The Secrets are not deleted, so that another
            attempt can continue.
    """
    for item in reversed(release.objects):
        metadata = item.get("metadata") or {}
        if (metadata.get("annotations") or {}).get(_KEEP) == "keep":
            continue
        path = await _find_path(api, item, release.namespace)
        if path is not None and await _is_of(api, path, release):
            await delete_if_present(api, path, {"propagationPolicy": "Foreground"})
    for name in release.secrets:
        await delete_if_present(api, build_object_path(build_secrets_path(release.namespace), name))


async def _is_of(api: ApiClient, path: str, release: Release) -> bool:
    answer = await get_if_present(api, path)
    if answer is None:
        return False
    written = msgspec.json.decode(answer, type=PartialObject).metadata.annotations or {}
    return (written.get(_RELEASE_NAME), written.get(_RELEASE_NAMESPACE)) == (release.name, release.namespace)


async def _find_path(api: ApiClient, item: Mapping[str, Any], namespace: str) -> str | None:
    version, kind, metadata = str(item["apiVersion"]), str(item["kind"]), item["metadata"]
    answer = await get_if_present(api, build_group_path(version))
    if answer is None:
        # The API server no longer serves the API group, so the object does not exist.
        return None
    for resource in msgspec.json.decode(answer, type=ApiResources).resources:
        if resource.kind == kind and "/" not in resource.name:
            scope = str(metadata.get("namespace") or namespace) if resource.namespaced else None
            return build_object_path(build_collection_path(version, resource.name, scope), str(metadata["name"]))
    return None


def _labels(secret: _Secret) -> Mapping[str, str]:
    return secret.metadata.labels or {}


def _read_revision(secret: _Secret) -> int:
    # The value of the label can be any text.
    text = _labels(secret).get("version", "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _decode_release(secret: _Secret) -> _Stored:
    try:
        packed = base64.b64decode(base64.b64decode(secret.data["release"], validate=True), validate=True)
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = unpacker.decompress(packed, _UNPACKED_BYTES) if packed[:2] == b"\x1f\x8b" else packed
        return msgspec.json.decode(text, type=_Stored)
    except (KeyError, binascii.Error, zlib.error, *UNREADABLE) as exc:
        raise ConfigurationError(
            f"cannot read the Helm release in Secret {secret.metadata.namespace}/{secret.metadata.name}: {exc}",
            next_step="uninstall it with Helm",
        ) from exc


def _parse_manifest(manifest: str, secret: str) -> list[dict[str, Any]]:
    try:
        documents = load_yaml_documents(manifest)
    except YAMLError as exc:
        raise ConfigurationError(
            f"cannot read the manifest in Secret {secret}: it is not YAML: {exc}", next_step="uninstall it with Helm"
        ) from exc
    return [item for item in documents if isinstance(item, dict) and item.get("kind") and item.get("apiVersion")]
