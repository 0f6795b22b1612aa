"""Enforcement of the shares of this node's pods by the mechanisms that the node supports."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from accelkit.logs import ErrorReporter
from accelkit.model.assignment import Share
from accelkit.node.discovery import FoundCard
from accelkit.node.enforcement.cgroups import CGROUPS, find_container_cgroup
from accelkit.node.enforcement.dmem import limit_pod
from accelkit.node.enforcement.memory_limits import LimitResult, MemoryLimit, set_memory_limits
from accelkit.node.pods import NodePod, NodePods

log = logging.getLogger(__name__)

# The interval after which unchanged limits are set again, because another program may have changed them.
_AGAIN_SECONDS: Final = 30.0

PodName = tuple[str, str]  # namespace, name
Limits = Mapping[PodName, Sequence[MemoryLimit]]


class Enforcer:
    """Enforcer of memory limits for pods that have shares.

    Args:
        root: the host's root folder.
        pods: the pods of this node.
        load: returns the module `pynvml`, or None if NVIDIA's library is missing.
        cgroup_limits: whether limits are set on cgroups, through NVIDIA's driver and the dmem controller.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        root: Path,
        *,
        pods: NodePods,
        load: Callable[[], Any | None],
        cgroup_limits: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._pods = pods
        self._load = load
        self._cgroup_limits = cgroup_limits
        self._clock = clock
        self._done: object = None
        self._done_at = 0.0
        self._errors = ErrorReporter(log, logging.INFO)
        # The mechanism that enforces the memory of each pod, by namespace and name. Pods without such a mechanism are
        # omitted.
        self.enforced: Mapping[PodName, str] = {}

    async def enforce(self, found: Sequence[FoundCard]) -> None:
        """Set the memory limits of the pods if pods or cards have changed, or if it is time to set the limits again."""
        pods = self._pods.list_pods()
        state = [(each.cgroup_uid, each.running, each.assigned) for each in pods], [each.card for each in found]
        if state == self._done and self._clock() - self._done_at < _AGAIN_SECONDS:
            return
        self.enforced = await asyncio.to_thread(self._enforce, pods, {each.card.id: each for each in found})
        self._done, self._done_at = state, self._clock()

    def _enforce(self, pods: Sequence[NodePod], cards: Mapping[str, FoundCard]) -> Mapping[PodName, str]:
        desired = {_name(pod): list(self._list_limits(pod, cards)) for pod in pods} if self._cgroup_limits else {}
        held = self._limit_memory(desired)
        enforced: dict[PodName, str] = {}
        for pod in {each.cgroup_uid: each for each in pods}.values():
            granted = sum_granted(pod)
            own = [cards[card] for card in granted if card in cards]
            if not own or len(own) != len(granted):
                continue
            limits = desired.get(_name(pod))
            if limits and held.issuperset(limits):
                enforced[_name(pod)] = "nvml"
            elif all(card.card.enforcement == "mps" for card in own):
                enforced[_name(pod)] = "mps"
            elif self._limit_by_dmem(pod, {card.card.bdf: granted[card.card.id] for card in own}, own):
                enforced[_name(pod)] = "dmem"
        return enforced

    def _limit_by_dmem(self, pod: NodePod, amounts: Mapping[str, int], cards: Sequence[FoundCard]) -> bool:
        counted = all(_is_counted(each, "dmem") for each in cards)
        return self._cgroup_limits and counted and limit_pod(self._root, pod.cgroup_uid, amounts)

    def _list_limits(self, pod: NodePod, cards: Mapping[str, FoundCard]) -> Iterator[MemoryLimit]:
        """Yield a limit for each shared card of each running container. Whole cards do not require a limit.

        If a card of the pod does not support limits through NVIDIA's driver, yield no limits.
        """
        shares = [
            (container, share)
            for container, each in (pod.assigned.assignment.containers if pod.assigned else {}).items()
            for share in each
            if container in pod.running and not share.whole
        ]
        if not all(_takes_limits(cards.get(share.card)) for _, share in shares):
            return
        for container, share in shares:
            cgroup = self._find_cgroup(pod, container)
            # If the cgroup is missing, yield a limit that cannot be set, so that the pod's shares are not reported as
            # enforced.
            yield MemoryLimit(cards[share.card].card.bdf, cgroup or Path(), share.memory_bytes)

    def _find_cgroup(self, pod: NodePod, container: str) -> Path | None:
        try:
            return find_container_cgroup(self._root, pod.cgroup_uid, pod.running[container])
        except OSError:
            # The container has already terminated.
            return None

    def _limit_memory(self, desired: Limits) -> frozenset[MemoryLimit]:
        limits = [limit for each in desired.values() for limit in each]
        if not limits:
            return frozenset()
        result = self._try(limits)
        if result.problem:
            self._errors.report(
                result.problem, f"cannot limit the memory of containers through NVIDIA's driver: {result.problem}"
            )
        else:
            self._errors.clear()
        return result.held

    def _try(self, limits: Sequence[MemoryLimit]) -> LimitResult:
        nvml = self._load()
        if nvml is None:
            return LimitResult(frozenset(), "NVIDIA's library is missing")
        if not (self._root / CGROUPS / "cgroup.controllers").exists():
            return LimitResult(frozenset(), "the host's cgroups of version 2 are missing")
        return set_memory_limits(nvml, [limit for limit in limits if limit.cgroup != Path()])


def sum_granted(pod: NodePod) -> dict[str, int]:
    """Return the memory that was assigned to a pod on each card, in bytes."""
    granted: dict[str, int] = {}
    shares: Sequence[Share] = [
        share for each in (pod.assigned.assignment.containers.values() if pod.assigned else ()) for share in each
    ]
    for share in shares:
        granted[share.card] = granted.get(share.card, 0) + share.memory_bytes
    return granted


def _name(pod: NodePod) -> PodName:
    return pod.pod.ref.namespace, pod.pod.ref.name


def _takes_limits(found: FoundCard | None) -> bool:
    return found is not None and _is_counted(found, "nvml")


def _is_counted(found: FoundCard, by: str) -> bool:
    """Return whether the mechanism limits the memory of this card itself, not of a card that contains it."""
    return by in found.profile.enforcement and bool(found.card.bdf) and found.part_of is None
