"""Examples in a cluster: applied in their order, deleted in the opposite one, each time within a deadline."""

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
# A cache whose claim is in use is not let go, and a namespace goes with all that is in it.
_REMOVAL: Final = (
    frozenset({"Pod", "DaemonSet"}),
    frozenset({"GKMCache", "ClusterGKMCache"}),
    frozenset({"Namespace"}),
)


class ObjectOutcome(StrEnum):
    """What became of an object, or would become of it."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    ABSENT = "absent"


@dataclass(frozen=True)
class ObjectChange:
    """An object, as `Kind namespace/name`, and what became of it."""

    object: str
    outcome: ObjectOutcome

    @property
    def changed(self) -> bool:
        """Return whether it is another than before."""
        return self.outcome not in {ObjectOutcome.UNCHANGED, ObjectOutcome.ABSENT}


class _Resource(msgspec.Struct):
    kind: str


class _Resources(msgspec.Struct):
    resources: list[_Resource]


class _Metadata(ObjectMeta):
    finalizers: list[str] | None = None


class _Stored(msgspec.Struct):
    metadata: _Metadata
    spec: dict[str, Any] = {}


class _Left(NamedTuple):
    path: str
    stored: _Stored


async def deploy(
    api: ApiClient, objects: Sequence[Object], *, seconds: float, dry_run: bool = False
) -> list[ObjectChange]:
    """Apply objects in their order, as the field manager `accelkit-examples`; it does not wait for pods to run.

    Args:
        api: an open client.
        objects: namespaces before what is in them.
        seconds: the deadline for all of it.
        dry_run: only say what would be done; what is there already is shown to the API server for its verdict.

    Raises:
        ExampleError: the cluster does not know GKM's kinds (then nothing was created), or the deadline passed.
        ApiError: the API server refused an object or did not answer; what came before it is there.
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
            f"{_name_object(objects[len(changes)])} could not be created within {seconds:g} s",
            next_step="see whether its namespace has the service account `default`, then repeat",
        ) from exc
    return changes


async def undeploy(
    api: ApiClient, objects: Sequence[Object], *, seconds: float, dry_run: bool = False
) -> list[ObjectChange]:
    """Delete objects, workloads first and namespaces last, and wait until they are gone.

    Raises:
        ExampleError: some are still there when the deadline passes; names them and the finalizers they wait for.
        ApiError: the API server refused or did not answer.
    """
    left: dict[str, _Left] = {}
    changes: list[ObjectChange] = []
    try:
        async with asyncio.timeout(seconds):
            for kinds in _REMOVAL:
                left.clear()
                for each in reversed([each for each in objects if each["kind"] in kinds]):
                    stored = await _read_stored(api, _build_path(each))
                    changes.append(
                        ObjectChange(_name_object(each), ObjectOutcome.DELETED if stored else ObjectOutcome.ABSENT)
                    )
                    if stored and not dry_run:
                        left[_name_object(each)] = _Left(_build_path(each), stored)
                for path, _ in left.values():
                    # In the foreground a DaemonSet stays until its pods are gone.
                    await delete_if_present(api, path, {"propagationPolicy": "Foreground"})
                await _wait_until_gone(api, left)
    except TimeoutError as exc:
        remaining = "; ".join(_describe_waiting(reference, stored) for reference, (_, stored) in left.items())
        raise ExampleError(
            f"not all is gone after {seconds:g} s: {remaining or 'the API server was too slow to ask'}",
            next_step="see that GKM's operator or accelkit's cache controller runs and takes its finalizers off",
        ) from exc
    return changes


async def _require_kinds(api: ApiClient, kinds: set[str]) -> None:
    answer = await get_if_present(api, build_group_path(GKM_API))
    known = msgspec.json.decode(answer, type=_Resources).resources if answer else ()
    if missing := sorted(kinds - {each.kind for each in known}):
        raise ExampleError(
            f"the cluster does not know {' and '.join(missing)} of {GKM_API}, so nothing was created",
            next_step="install GKM's custom resource definitions first, or accelkit's by its role kernel_cache",
        )


async def _apply(api: ApiClient, item: Object, *, dry_run: bool) -> ObjectOutcome:
    path = _build_path(item)
    before = await _read_stored(api, path)
    if before is None and dry_run:
        return ObjectOutcome.CREATED
    # What is another's is taken over: these names are ours. Unknown fields are refused rather than dropped.
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
            # A pod is refused until its new namespace has been given a service account.
            if not exc.forbidden or "service account" not in exc.message:
                raise
        await asyncio.sleep(_POLL_SECONDS)


def _select_comparable(stored: _Stored) -> object:
    # The scheduler sets nodeName at any time.
    return stored.metadata.labels or {}, {key: value for key, value in stored.spec.items() if key != "nodeName"}


async def _wait_until_gone(api: ApiClient, left: dict[str, _Left]) -> None:
    while left:
        for reference, (path, _) in [*left.items()]:
            stored = await _read_stored(api, path)
            if stored is None:
                del left[reference]
            else:
                left[reference] = _Left(path, stored)
        if left:
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
