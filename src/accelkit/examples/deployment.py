"""Deployment of examples to a cluster. Objects are applied in order, or deleted in reverse order, with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from accelkit.errors import ApiError, ExampleError
from accelkit.examples.objects import GKM_API, Object
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import delete_if_present, get_if_present
from accelkit.kube.paths import build_collection_path, build_group_path, build_object_path
from accelkit.kube.views.api import ApiResources
from accelkit.model.object_meta import ObjectMeta

FIELD_MANAGER: Final = "accelkit-examples"
_POLL_SECONDS: Final = 0.5


_PLURALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Namespace": "namespaces",
        "Pod": "pods",
        "DaemonSet": "daemonsets",
        "GKMCache": "gkmcaches",
        "ClusterGKMCache": "clustergkmcaches",
    }
)
# The order of deletion. Caches are deleted after the workloads, because a cache has a finalizer while its claim is in
# use. Namespaces are deleted last, because the deletion of a namespace deletes all objects in the namespace.
_REMOVAL: Final = (
    frozenset({"Pod", "DaemonSet"}),
    frozenset({"GKMCache", "ClusterGKMCache"}),
    frozenset({"Namespace"}),
)


class ObjectOutcome(StrEnum):
    """The actual result for an object, or the result that a dry run predicts."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    ABSENT = "absent"


@dataclass(frozen=True)
class ObjectChange:
    """An object in the form `Kind namespace/name`, and its result."""

    object: str
    outcome: ObjectOutcome

    @property
    def changed(self) -> bool:
        """Return whether the object has changed."""
        return self.outcome not in {ObjectOutcome.UNCHANGED, ObjectOutcome.ABSENT}


class _Metadata(ObjectMeta):
    finalizers: list[str] | None = None


class _Stored(msgspec.Struct):
    metadata: _Metadata
    spec: dict[str, Any] = {}


class _Remaining(NamedTuple):
    path: str
    stored: _Stored


async def deploy(
    api: ApiClient, objects: Sequence[Object], *, seconds: float, dry_run: bool = False
) -> list[ObjectChange]:
    """Apply objects in order, with the field manager `accelkit-examples`. Do not wait until pods are running.

    Args:
        api: an open client.
        objects: the objects. Each Namespace must precede the objects in this namespace.
        seconds: the time limit for all objects.
        dry_run: whether to report the changes without making them. For existing objects, the API server performs a dry
            run.

    Raises:
        ExampleError: the cluster does not serve GKM's kinds, in which case nothing was created; or the time limit was
            exceeded.
        ApiError: the API server rejected an object or did not respond. Earlier objects are not deleted.
    """
    changes: list[ObjectChange] = []
    try:
        async with asyncio.timeout(seconds):
            await _require_kinds(api, {each["kind"] for each in objects if each["apiVersion"] == GKM_API})
            for each in objects:
                outcome = await _apply(api, each, dry_run=dry_run)
                changes.append(ObjectChange(_name_object(each), outcome))
    except TimeoutError as exc:
        raise ExampleError(
            f"cannot create {_name_object(objects[len(changes)])}: timed out after {seconds:g} s",
            next_step="check that its namespace has the service account `default`, then run the command again",
        ) from exc
    return changes


async def undeploy(
    api: ApiClient, objects: Sequence[Object], *, seconds: float, dry_run: bool = False
) -> list[ObjectChange]:
    """Delete objects, workloads first and namespaces last, and wait until they are deleted.

    Raises:
        ExampleError: objects still exist after the time limit. The message lists the objects and their finalizers.
        ApiError: the API server rejected a request or did not respond.
    """
    remaining: dict[str, _Remaining] = {}
    changes: list[ObjectChange] = []
    try:
        async with asyncio.timeout(seconds):
            for kinds in _REMOVAL:
                remaining.clear()
                for each in reversed([each for each in objects if each["kind"] in kinds]):
                    stored = await _read_stored(api, _build_path(each))
                    changes.append(
                        ObjectChange(_name_object(each), ObjectOutcome.DELETED if stored else ObjectOutcome.ABSENT)
                    )
                    if stored and not dry_run:
                        remaining[_name_object(each)] = _Remaining(_build_path(each), stored)
                for path, _ in remaining.values():
                    # With foreground deletion, a DaemonSet exists until its pods are deleted.
                    await delete_if_present(api, path, {"propagationPolicy": "Foreground"})
                await _wait_until_gone(api, remaining)
    except TimeoutError as exc:
        waiting = "; ".join(_describe_waiting(reference, stored) for reference, (_, stored) in remaining.items())
        raise ExampleError(
            f"cannot delete all objects within {seconds:g} s: {waiting or 'the API server is too slow'}",
            next_step="check that GKM's operator or accelkit's cache controller is running and removes its finalizers",
        ) from exc
    return changes


async def _require_kinds(api: ApiClient, kinds: set[str]) -> None:
    answer = await get_if_present(api, build_group_path(GKM_API))
    known = msgspec.json.decode(answer, type=ApiResources).resources if answer else ()
    if missing := sorted(kinds - {each.kind for each in known}):
        raise ExampleError(
            f"cannot create the examples: the cluster does not serve {' and '.join(missing)} of {GKM_API}",
            next_step="install the custom resource definitions of GKM, or those of accelkit with the role kernel_cache",
        )


async def _apply(api: ApiClient, item: Object, *, dry_run: bool) -> ObjectOutcome:
    path = _build_path(item)
    before = await _read_stored(api, path)
    if before is None and dry_run:
        return ObjectOutcome.CREATED
    # Force conflicts, because objects with these names belong to the examples. Require the API server to reject unknown
    # fields.
    query = {"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
    answer = await _patch(api, path, item, query | ({"dryRun": "All"} if dry_run else {}))
    if before is None:
        return ObjectOutcome.CREATED
    after = msgspec.json.decode(answer, type=_Stored)
    return ObjectOutcome.UNCHANGED if _select_comparable(before) == _select_comparable(after) else ObjectOutcome.CHANGED


async def _patch(api: ApiClient, path: str, item: Object, query: Mapping[str, str]) -> bytes:
    while True:
        try:
            return await api.patch(path, item, kind="apply", query=query)
        except ApiError as exc:
            # In a new namespace, the API server rejects pods until the service account exists.
            if not exc.forbidden or "service account" not in exc.message:
                raise
        await asyncio.sleep(_POLL_SECONDS)


def _select_comparable(stored: _Stored) -> object:
    # Ignore nodeName, which the scheduler may set at any time.
    return stored.metadata.labels or {}, {key: value for key, value in stored.spec.items() if key != "nodeName"}


async def _wait_until_gone(api: ApiClient, remaining: dict[str, _Remaining]) -> None:
    while remaining:
        for reference, (path, _) in [*remaining.items()]:
            stored = await _read_stored(api, path)
            if stored is None:
                del remaining[reference]
            else:
                remaining[reference] = _Remaining(path, stored)
        if remaining:
            await asyncio.sleep(_POLL_SECONDS)


async def _read_stored(api: ApiClient, path: str) -> _Stored | None:
    answer = await get_if_present(api, path)
    return None if answer is None else msgspec.json.decode(answer, type=_Stored)


def _build_path(item: Object) -> str:
    metadata = item["metadata"]
    objects = build_collection_path(item["apiVersion"], _PLURALS[item["kind"]], metadata.get("namespace"))
    return build_object_path(objects, metadata["name"])


def _name_object(item: Object) -> str:
    metadata = item["metadata"]
    namespace = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{item['kind']} {namespace}{metadata['name']}"


def _describe_waiting(reference: str, stored: _Stored) -> str:
    finalizers = stored.metadata.finalizers or ()
    return f"{reference} waits for {', '.join(finalizers)}" if finalizers else reference
