"""Applies a plan: holds the cards, evicts, and waits until each pod is bound or says why not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final

import msgspec

from accelkit.defragmentation.plan import Plan, Step
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.disruptions.evictions import evict
from accelkit.kube.paths import build_pod_path
from accelkit.model.hold import Hold
from accelkit.model.keys import HOLD_CONDITION
from accelkit.model.pod import SCHEDULED, Pod, PodRef

# The hold outlasts the wait, so that it cannot end while a Binding is on its way.
HOLD_MARGIN_SECONDS: Final = 30
_POLL_SECONDS: Final = 1.0
_PROGRESS_SECONDS: Final = 10.0


class Applier:
    """Applies plans through the API server.

    Args:
        api: an open client.
        say: prints one line of progress.
        wait_seconds: how long all pods together may take until they are bound.
    """

    def __init__(self, api: ApiClient, say: Callable[[str], None], wait_seconds: float) -> None:
        self._api, self._say, self._wait_seconds = api, say, wait_seconds

    async def apply(self, plan: Plan) -> bool:
        """Evict step by step, and wait; return whether each pod for which others were evicted is bound.

        Raises:
            ApiError: an eviction was refused; what comes after it is not tried, and cards stay held for the pods of
                the steps before it.
        """
        steps = [step for step in plan.steps if step.evictions]
        for step in steps:
            await self._apply_step(step)
        return await self._wait(steps)

    async def _apply_step(self, step: Step) -> None:
        pods = _list_evicted(step)
        for pod in pods:
            await self._evict(pod, dry_run=True)
        await self._hold(step)
        for pod in pods:
            try:
                await self._evict(pod)
            except ApiError:
                # The other pods would have to leave too.
                await self._end_hold(step)
                raise
            self._say(f"evicted {pod} for {step.namespace}/{step.pod}")

    async def _hold(self, step: Step) -> None:
        until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=self._wait_seconds + HOLD_MARGIN_SECONDS)
        hold = Hold(step.node, until, tuple(each.uid for each in step.evictions))
        try:
            await self._patch_condition(step, hold.build_condition())
        except ApiError as exc:
            raise ApiError(
                f"cannot hold cards of node {step.node} for pod {step.namespace}/{step.pod}: {exc.message}",
                status=exc.status,
                next_step="run `accelkit defrag --plan` again; --apply needs the right to patch pods/status",
            ) from exc

    async def _end_hold(self, step: Step) -> None:
        try:
            await self._patch_condition(step, {"type": HOLD_CONDITION, "$patch": "delete"})
        except ApiError as exc:
            if not (exc.not_found or exc.conflict):
                self._say(f"the hold for {step.namespace}/{step.pod} ends by itself: {exc.message}")

    async def _patch_condition(self, step: Step, condition: dict[str, str]) -> None:
        path = f"{build_pod_path(step.namespace, step.pod)}/status"
        # The UID makes the API server refuse a pod of the same name that was created since.
        patch = {"metadata": {"uid": step.uid}, "status": {"conditions": [condition]}}
        await self._api.patch(path, patch, kind="strategic")

    async def _evict(self, pod: PodRef, *, dry_run: bool = False) -> None:
        try:
            await evict(self._api, pod, dry_run=dry_run)
        except ApiError as exc:
            if exc.not_found:
                return
            budget = " by a PodDisruptionBudget" if exc.status == HTTPStatus.TOO_MANY_REQUESTS else ""
            raise ApiError(
                f"evicting {pod} is refused{budget}: {exc.message}",
                status=exc.status,
                next_step="run `accelkit defrag --plan` again: the cluster has changed",
            ) from exc

    async def _wait(self, steps: Iterable[Step]) -> bool:
        """Wait until the pods of all steps are bound or deleted, or the time is over; return whether all are bound."""
        began = time.monotonic()
        left, bound, said_at = list(steps), True, began
        while left:
            for step in list(left):
                found = await self._find_result(step)
                if found is not None:
                    self._say(f"{step.namespace}/{step.pod} {found}")
                    bound = bound and found.startswith("is bound")
                    await self._end_hold(step)
                    left.remove(step)
            now = time.monotonic()
            if left and now - began >= self._wait_seconds:
                for step in left:
                    self._say(
                        f"{step.namespace}/{step.pod} is not bound after {now - began:.0f} s: {await self._ask(step)}"
                    )
                    await self._end_hold(step)
                return False
            if left and now - said_at >= _PROGRESS_SECONDS:
                said_at = now
                waits = ", ".join(f"{step.namespace}/{step.pod}" for step in left)
                self._say(f"waiting for {waits}: {self._wait_seconds - (now - began):.0f} s left")
            if left:
                await asyncio.sleep(_POLL_SECONDS)
        return bound

    async def _find_result(self, step: Step) -> str | None:
        """Return what became of a pod; None while it waits, or the API server does not answer."""
        try:
            pod = await self._read(PodRef(step.namespace, step.pod, step.uid))
        except ApiError as exc:
            if exc.unanswered:
                return None
            raise
        if pod is None:
            return "was deleted before it was bound"
        return f"is bound to {pod.spec.node_name}" if pod.spec.node_name else None

    async def _ask(self, step: Step) -> str:
        """Return why a pod is not bound, as far as the API server says."""
        try:
            left = [str(each) for each in _list_evicted(step) if await self._read(each) is not None]
            pod = await self._read(PodRef(step.namespace, step.pod, step.uid))
        except ApiError as exc:
            return exc.message
        if left:
            return f"{', '.join(left)} {'has' if len(left) == 1 else 'have'} not ended"
        conditions = pod.status.conditions or () if pod is not None else ()
        said = (each.message for each in conditions if each.type == SCHEDULED and each.message)
        return next(said, "kube-scheduler has not tried it")

    async def _read(self, ref: PodRef) -> Pod | None:
        try:
            answer = await self._api.get(build_pod_path(ref.namespace, ref.name))
        except ApiError as exc:
            if exc.not_found:
                return None
            raise
        try:
            pod = msgspec.json.decode(answer, type=Pod)
        except msgspec.MsgspecError as exc:
            raise ServiceError(f"cannot read pod {ref}: {exc}") from exc
        return pod if pod.metadata.uid == ref.uid else None


def _list_evicted(step: Step) -> list[PodRef]:
    return [PodRef(each.namespace, each.pod, each.uid) for each in step.evictions]
