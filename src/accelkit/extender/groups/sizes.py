"""Watches of both kinds of PodGroups, if the API server serves them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from accelkit.errors import ApiError
from accelkit.extender.groups.group_index import GroupIndex
from accelkit.extender.groups.membership import Convention, GroupKey
from accelkit.extender.groups.objects import CoschedulingGroup, WorkloadGroup
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_collection_path, build_group_path
from accelkit.kube.reflector import Reflector
from accelkit.kube.views.api import ApiResources

log = logging.getLogger(__name__)

_PLURAL: Final = "podgroups"
# Interval between checks for a kind that is missing but may be installed later.
_ABSENT_SECONDS: Final = 30.0
_FAILED_SECONDS: Final = 2.0

_T = TypeVar("_T", CoschedulingGroup, WorkloadGroup)


class _Version(msgspec.Struct):
    version: str


class _ApiGroup(msgspec.Struct):
    versions: list[_Version] = []


class GroupSizes:
    """Component that updates the group index from PodGroups.

    Args:
        api: an open client.
        group_index: the index to update.
        on_change: a function that is called after each change: with the changed group, or without arguments after a
            list.
    """

    def __init__(self, api: ApiClient, group_index: GroupIndex, on_change: Callable[..., None]) -> None:
        self._api, self._group_index, self._on_change = api, group_index, on_change
        self._read_kinds: set[Convention] = set()

    @property
    def are_read(self) -> bool:
        """Whether all kinds that the API server serves have been read."""
        return len(self._read_kinds) == len(_KINDS)

    async def run(self) -> None:
        """Watch both kinds of PodGroups until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(Convention.COSCHEDULING, CoschedulingGroup))
            tasks.create_task(self._follow(Convention.WORKLOAD, WorkloadGroup))

    async def _follow(self, convention: Convention, type_: type[_T]) -> None:
        while (path := await self._find_path(convention)) is None:
            self._note_read(convention)
            await asyncio.sleep(_ABSENT_SECONDS)

        def replace(objects: list[_T]) -> None:
            sizes = {_read_key(each, convention): each.size for each in objects}
            self._group_index.keep_sizes(convention, sizes)
            self._note_read(convention)

        def take(kind: str, each: _T) -> None:
            key = _read_key(each, convention)
            if kind == "DELETED":
                self._group_index.drop_size(key)
            else:
                self._group_index.put_size(key, each.size)
            self._on_change(key)

        await Reflector(self._api, path, type_, trim=_trim, on_replace=replace, on_event=take).run()

    async def _find_path(self, convention: Convention) -> str | None:
        """Return the API path of a kind; None if the API server does not serve it."""
        while True:
            try:
                return await self._discover(convention)
            except (ApiError, *UNREADABLE) as exc:
                log.warning("cannot check whether the API server serves PodGroups of %s: %s", convention, exc)
                await asyncio.sleep(_FAILED_SECONDS)

    async def _discover(self, convention: Convention) -> str | None:
        try:
            answer = await self._api.get(f"/apis/{convention}")
        except ApiError as exc:
            if exc.not_found:
                return None
            raise
        for each in msgspec.json.decode(answer, type=_ApiGroup).versions:
            version = f"{convention}/{each.version}"
            found = msgspec.json.decode(await self._api.get(build_group_path(version)), type=ApiResources)
            if any(resource.name == _PLURAL for resource in found.resources):
                return build_collection_path(version, _PLURAL)
        return None

    def _note_read(self, convention: Convention) -> None:
        self._read_kinds.add(convention)
        self._on_change()


_KINDS: Final = (Convention.COSCHEDULING, Convention.WORKLOAD)


def _read_key(each: _T, convention: Convention) -> GroupKey:
    return GroupKey(each.metadata.namespace, each.metadata.name, convention)


def _trim(each: CoschedulingGroup | WorkloadGroup) -> None:
    each.metadata.labels = each.metadata.annotations = None
