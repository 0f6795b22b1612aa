"""Index of group members, with the placement data of waiting pods and the UIDs of other pods.

This module performs no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from accelkit.errors import AccelkitError
from accelkit.extender.groups.membership import (
    SIZE_KEY,
    Convention,
    GroupKey,
    read_conditions,
    read_group,
    read_stated_size,
)
from accelkit.kube.views.scheduling import SchedulingPod
from accelkit.model.host_amounts import HostAmounts, read_pod_amounts
from accelkit.model.pod import PodRef
from accelkit.texts import shorten

# Maximum size of a group that can be placed at once.
MOST_MEMBERS: Final = 10_000


class GroupSizeError(AccelkitError):
    """The size of a group is unknown or invalid, or its pods specify different sizes."""


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of a group that waits for a node.

    Attributes:
        place: the index of accelkit's gate in the pod's list of gates; -1 if the pod does not have this gate.
        kept: whether the pod has gates from other controllers; the pod is not treated as a member until these gates are
            removed.
        stated: the group size that the pod specifies, truncated if the text is too long.
        host: the host requests of the pod.
        rules: the encoded node selector, node affinity and tolerations of the pod.
    """

    ref: PodRef
    created_at: str
    place: int
    kept: bool
    stated: str | None
    host: HostAmounts
    rules: bytes

    @property
    def gated(self) -> bool:
        """Whether the pod has accelkit's gate."""
        return self.place >= 0


@dataclass(slots=True)
class Group:
    """A group of pods.

    Attributes:
        waiting: the pods without a node, by UID.
        done: the UIDs of the pods that have a node or have succeeded.
        version: the number of changes to the group so far.
        event_count: the number of watch events about its pods, including events that did not change the group.
        joined: the number of pods that joined the group, or whose last gate from another controller was removed.
    """

    key: GroupKey
    waiting: dict[str, Member] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    version: int = 0
    event_count: int = 0
    joined: int = 0
    # Results that are cached for one version.
    _oldest: tuple[int, Member] | None = None
    _size: tuple[int, int | GroupSizeError] | None = None

    def find_oldest(self) -> Member:
        """Return the oldest waiting pod; at least one pod must be waiting."""
        if self._oldest is None or self._oldest[0] != self.version:
            oldest = min(self.waiting.values(), key=lambda each: (each.created_at, each.ref.name))
            self._oldest = self.version, oldest
        return self._oldest[1]

    def find_size(self, read: Callable[[], int]) -> int:
        """Return the size of the group, which is read once for each version of the group by calling `read`.

        Raises:
            GroupSizeError: `read` raised this error.
        """
        if self._size is None or self._size[0] != self.version:
            try:
                self._size = self.version, read()
            except GroupSizeError as exc:
                self._size = self.version, exc
        found = self._size[1]
        if isinstance(found, GroupSizeError):
            raise found.with_traceback(None)
        return found


class GroupIndex:
    """All groups."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Group] = {}
        self._where: dict[str, GroupKey] = {}
        self._sizes: dict[GroupKey, int | None] = {}

    def replace(self, pods: Collection[SchedulingPod], keep: Callable[[str], bool] = lambda _: False) -> None:
        """Apply a complete list of pods.

        Args:
            pods: the pods in the list.
            keep: a function that returns whether a missing pod with this UID waits and is newer than the list.
        """
        before, self._groups, self._where = self._groups, {}, {}
        for pod in pods:
            self.take_event("ADDED", pod)
        listed = {pod.metadata.uid for pod in pods}
        for key, known in before.items():
            for uid, member in known.waiting.items():
                if uid not in listed and keep(uid):
                    kept = self._groups.setdefault(key, Group(key))
                    kept.waiting[uid] = member
                    kept.version += 1
                    self._where[uid] = key
        for key, group in self._groups.items():
            if (former := before.get(key)) is not None:
                group.version += former.version
                group.joined += former.joined

    def take_event(self, kind: str, pod: SchedulingPod) -> GroupKey | None:
        """Apply a single pod change; return the changed group, or None if no group has changed."""
        uid, key = pod.metadata.uid, read_group(pod)
        known = self._where.get(uid)
        if kind == "DELETED" or pod.status.phase == "Failed":
            key = None
        elif pod.metadata.deletion_timestamp is not None and not pod.spec.node_name:
            # A finalizer may delay the deletion of the pod, but the API server rejects Bindings of this pod.
            key = None
        if known is not None and known != key:
            self._discard(uid)
        if key is None:
            return known
        group = self._groups.setdefault(key, Group(key))
        group.event_count += 1
        if pod.spec.node_name or pod.terminal:
            if uid in group.done:
                return None
            group.waiting.pop(uid, None)
            group.done.add(uid)
        else:
            member = _read_member(pod)
            if group.waiting.get(uid) == member:
                return None
            former = group.waiting.get(uid)
            group.joined += former is None or (former.kept and not member.kept)
            group.waiting[uid] = member
        self._where[uid] = key
        group.version += 1
        return key

    def put_size(self, key: GroupKey, size: int | None) -> None:
        """Set the size from the PodGroup of a group, which overrides the size that the pods specify."""
        self._sizes[key] = size
        self._touch(key)

    def drop_size(self, key: GroupKey) -> None:
        """Record that a group no longer has a PodGroup."""
        self._sizes.pop(key, None)
        self._touch(key)

    def keep_sizes(self, convention: Convention, sizes: Mapping[GroupKey, int | None]) -> None:
        """Apply a complete list of a convention's PodGroups; other groups of the convention lose their sizes."""
        for key in [key for key in self._sizes if key.convention is convention and key not in sizes]:
            self.drop_size(key)
        for key, size in sizes.items():
            self.put_size(key, size)

    def find(self, uid: str) -> Group | None:
        """Return the group of a pod; None if it does not belong to a group."""
        key = self._where.get(uid)
        return None if key is None else self._groups[key]

    def get(self, key: GroupKey) -> Group | None:
        """Return a group; None if no pod of the group is waiting."""
        group = self._groups.get(key)
        return group if group is not None and group.waiting else None

    def list_waiting(self) -> list[Group]:
        """Return the groups with waiting pods, the oldest first."""
        waiting = (each for each in self._groups.values() if each.waiting)
        return sorted(waiting, key=lambda each: each.find_oldest().created_at)

    def read_size(self, group: Group) -> int:
        """Return the minimum number of pods of a group that must be placed, from 1 to `MOST_MEMBERS`.

        Raises:
            GroupSizeError: the size is unknown or invalid, or the pods specify different sizes.
        """
        return group.find_size(lambda: self._read_size(group))

    def _read_size(self, group: Group) -> int:
        key = group.key
        if key in self._sizes:
            return _check(self._sizes[key], f"the PodGroup {key} of {key.convention}")
        if key.convention is Convention.WORKLOAD:
            raise GroupSizeError(f"the PodGroup {key} of {key.convention} does not exist", next_step="create it")
        stated = {each.stated: each.ref for each in group.waiting.values() if each.stated is not None}
        if not stated:
            raise GroupSizeError(
                f"the size of group {key} is unknown",
                next_step=f"create its PodGroup, or label its pods {SIZE_KEY}=NUMBER",
            )
        if len(stated) > 1:
            (one, first), (other, second) = sorted(stated.items())[:2]
            raise GroupSizeError(
                f"the pods of group {key} state different sizes: {first.name} has {shorten(one)}, {second.name} has "
                f"{shorten(other)}",
                next_step=f"set the same {SIZE_KEY} on all pods",
            )
        text, ref = next(iter(stated.items()))
        return _check(int(text) if text.isascii() and text.isdigit() else None, f"{SIZE_KEY} of pod {ref}")

    def _discard(self, uid: str) -> None:
        key = self._where.pop(uid)
        group = self._groups[key]
        group.waiting.pop(uid, None)
        group.done.discard(uid)
        group.version += 1
        if not group.waiting and not group.done:
            del self._groups[key]

    def _touch(self, key: GroupKey) -> None:
        if (group := self._groups.get(key)) is not None:
            group.version += 1


def _read_member(pod: SchedulingPod) -> Member:
    conditions = read_conditions(pod)
    return Member(
        pod.ref,
        pod.metadata.creation_timestamp or "",
        conditions.place,
        conditions.kept,
        read_stated_size(pod),
        read_pod_amounts(pod.spec),
        conditions.rules,
    )


def _check(size: int | None, source: str) -> int:
    if size is None or not 1 <= size <= MOST_MEMBERS:
        raise GroupSizeError(
            f"{source} is not a valid group size", next_step=f"set a whole number from 1 to {MOST_MEMBERS}"
        )
    return size
