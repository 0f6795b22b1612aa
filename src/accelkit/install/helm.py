"""Releases of Helm 3, found and uninstalled without Helm: a release is a Secret that holds what was applied.

The Secret's `release` is base64 in base64 of gzip of JSON (helm.sh/helm/v3/pkg/storage/driver). Each revision has a
Secret of its own. Uninstalling deletes what the newest revision applied, then the Secrets; hooks are not run.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from accelkit.errors import ApiError, ConfigurationError
from accelkit.kube.client import ApiClient
from accelkit.kube.reflector import UNREADABLE

_SECRETS: Final = "/api/v1/secrets?labelSelector=owner%3Dhelm"
_KEEP: Final = "helm.sh/resource-policy"
# A Secret holds 1 MiB; what unpacks to a hundred times that is no release.
_UNPACKED_BYTES: Final = 100 * 2**20


class _Meta(msgspec.Struct):
    name: str
    namespace: str
    labels: dict[str, str] = {}


class _Secret(msgspec.Struct):
    metadata: _Meta
    data: dict[str, str] = {}


class _Secrets(msgspec.Struct):
    items: list[_Secret] | None = None


class _ChartMetadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Chart(msgspec.Struct, frozen=True):
    metadata: _ChartMetadata = _ChartMetadata()


class _Stored(msgspec.Struct):
    chart: _Chart = _Chart()
    manifest: str = ""


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _Resources(msgspec.Struct):
    resources: list[_Resource]


@dataclass(frozen=True)
class Release:
    """An installed release.

    Attributes:
        name: as `helm list` shows it.
        namespace: where it was installed.
        chart: the chart's name.
        objects: what was applied, in Helm's order.
        secrets: the Secrets of its revisions.
    """

    name: str
    namespace: str
    chart: str
    objects: Sequence[Mapping[str, Any]]
    secrets: Sequence[str]


async def list_releases(api: ApiClient, chart_prefix: str) -> list[Release]:
    """Return the releases of charts whose name begins so, sorted by namespace and name.

    Raises:
        ApiError: the API server refused or did not answer.
        ConfigurationError: a release cannot be read.
    """
    secrets = msgspec.json.decode(await api.get(_SECRETS), type=_Secrets).items or []
    revisions: dict[tuple[str, str], list[_Secret]] = {}
    for secret in secrets:
        if name := secret.metadata.labels.get("name"):
            revisions.setdefault((secret.metadata.namespace, name), []).append(secret)
    releases = []
    for (namespace, name), found in sorted(revisions.items()):
        newest = max(found, key=lambda secret: int(secret.metadata.labels.get("version", "0")))
        stored = _stored(newest)
        if stored.chart.metadata.name.startswith(chart_prefix):
            names = tuple(sorted(secret.metadata.name for secret in found))
            objects = _objects(stored.manifest, newest.metadata.name)
            releases.append(Release(name, namespace, stored.chart.metadata.name, objects, names))
    return releases


async def uninstall(api: ApiClient, release: Release) -> None:
    """Delete what a release applied, the last first, then its record; what is gone already is passed over.

    Raises:
        ApiError: the API server refused or did not answer; the record then stays, so that a second try goes on.
    """
    for item in reversed(release.objects):
        metadata = item.get("metadata") or {}
        if (metadata.get("annotations") or {}).get(_KEEP) == "keep":
            continue
        path = await _path(api, item, release.namespace)
        if path is not None:
            await _delete(api, path, {"propagationPolicy": "Foreground"})
    for name in release.secrets:
        await _delete(api, f"/api/v1/namespaces/{release.namespace}/secrets/{name}", None)


async def _path(api: ApiClient, item: Mapping[str, Any], namespace: str) -> str | None:
    version, kind, metadata = str(item["apiVersion"]), str(item["kind"]), item["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        resources = msgspec.json.decode(await api.get(root), type=_Resources).resources
    except ApiError as exc:
        if exc.status == HTTPStatus.NOT_FOUND:
            # The server does not know the group any more, so nothing of it exists.
            return None
        raise
    for resource in resources:
        if resource.kind == kind and "/" not in resource.name:
            place = f"/namespaces/{metadata.get('namespace') or namespace}" if resource.namespaced else ""
            return f"{root}{place}/{resource.name}/{metadata['name']}"
    return None


async def _delete(api: ApiClient, path: str, options: Mapping[str, str] | None) -> None:
    try:
        await api.delete(path, options)
    except ApiError as exc:
        if exc.status != HTTPStatus.NOT_FOUND:
            raise


def _stored(secret: _Secret) -> _Stored:
    try:
        packed = base64.b64decode(base64.b64decode(secret.data["release"], validate=True), validate=True)
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = unpacker.decompress(packed, _UNPACKED_BYTES) if packed[:2] == b"\x1f\x8b" else packed
        return msgspec.json.decode(text, type=_Stored)
    except (KeyError, binascii.Error, zlib.error, *UNREADABLE) as exc:
        raise ConfigurationError(
            f"the Helm release in Secret {secret.metadata.namespace}/{secret.metadata.name} cannot be read: {exc}",
            next_step="uninstall it with Helm",
        ) from exc


def _objects(manifest: str, place: str) -> list[dict[str, Any]]:
    try:
        documents = list(YAML(typ="safe", pure=True).load_all(manifest))
    except YAMLError as exc:
        raise ConfigurationError(
            f"the manifest in Secret {place} is not YAML: {exc}", next_step="uninstall it with Helm"
        ) from exc
    return [item for item in documents if isinstance(item, dict) and item.get("kind") and item.get("apiVersion")]
