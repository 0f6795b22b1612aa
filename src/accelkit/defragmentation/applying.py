"""Application of a plan: hold the cards, evict pods, and wait until the pending pods are bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final

import msgspec

from accelkit.defragmentation.plan import DefragmentationPlan, PlannedPlacement
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.disruptions.evictions import evict
from accelkit.kube.paths import build_pod_path
from accelkit.model.hold import Hold
from accelkit.model.keys import HOLD_CONDITION
from accelkit.model.pod import SCHEDULED, Pod, PodRef

# The hold lasts longer than the wait, so that it cannot end while a Binding is in progress.
HOLD_MARGIN_SECONDS: Final = 30
_POLL_SECONDS: Final = 1.0
_PROGRESS_SECONDS: Final = 10.0


class PlanApplier:
    """Client that applies plans through the API server.

    Args:
        api: an open client.
        report: a callback that receives each progress message.
        wait_seconds: the maximum time to wait until all pods are bound.
    """

    def __init__(self, api: ApiClient, report: Callable[[str], None], wait_seconds: float) -> None:
        self._api, self._report, self._wait_seconds = api, report, wait_seconds

    async def apply(self, plan: DefragmentationPlan) -> bool:
        """Apply the steps in order and wait; return whether all pods that require evictions have been bound.

        Raises:
            ApiError: the API server rejected an eviction. Later evictions are skipped. The cards from earlier steps
                remain on hold for their pods.
        """
        steps = [step for step in plan.steps if step.evictions]
        for step in steps:
            await self._apply_step(step)
        return await self._wait(steps)

    async def _apply_step(self, step: PlannedPlacement) -> None:
        pods = _list_evicted(step)
        for pod in pods:
            await self._evict(pod, dry_run=True)
        await self._hold(step)
        for pod in pods:
            try:
                await self._evict(pod)
            except ApiError:
                # The pod requires all evictions in the step, so end the hold.
                await self._end_hold(step)
                raise
            self._report(f"evicted {pod} for {step.namespace}/{step.pod}")

    async def _hold(self, step: PlannedPlacement) -> None:
        until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=self._wait_seconds + HOLD_MARGIN_SECONDS)
        hold = Hold(step.node, until, tuple(each.uid for each in step.evictions))
        try:
            await self._patch_condition(step, hold.build_condition())
        except ApiError as exc:
            raise ApiError(
                f"cannot hold cards of node {step.node} for pod {step.namespace}/{step.pod}: {exc.message}",
                status=exc.status,
                next_step="run `accelkit defrag --plan` again; --apply requires permission to patch pods/status",
            ) from exc

    async def _end_hold(self, step: PlannedPlacement) -> None:
        try:
            await self._patch_condition(step, {"type": HOLD_CONDITION, "$patch": "delete"})
        except ApiError as exc:
            if not (exc.not_found or exc.conflict):
                self._report(
                    f"cannot end the hold for {step.namespace}/{step.pod}: {exc.message}; the hold will expire"
                )

    async def _patch_condition(self, step: PlannedPlacement, condition: dict[str, str]) -> None:
        path = f"{build_pod_path(step.namespace, step.pod)}/status"
        # Because of the UID, the API server rejects the patch if a newer pod has the same name.
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
                f"cannot evict {pod}: refused{budget}: {exc.message}",
                status=exc.status,
                next_step="run `accelkit defrag --plan` again, because the cluster has changed",
            ) from exc

    async def _wait(self, steps: Iterable[PlannedPlacement]) -> bool:
        """Wait until all pods are bound or deleted, or the maximum time has elapsed; return whether all are bound."""
        began = time.monotonic()
        left, bound, reported_at = list(steps), True, began
        while left:
            for step in list(left):
                result = await self._find_result(step)
                if result is not None:
                    self._report(f"{step.namespace}/{step.pod} {result}")
                    bound = bound and result.startswith("is bound")
                    await self._end_hold(step)
                    left.remove(step)
            now = time.monotonic()
            if left and now - began >= self._wait_seconds:
                for step in left:
                    reason = await self._find_reason(step)
                    self._report(f"{step.namespace}/{step.pod} is not bound after {now - began:.0f} s: {reason}")
                    await self._end_hold(step)
                return False
            if left and now - reported_at >= _PROGRESS_SECONDS:
                reported_at = now
                waits = ", ".join(f"{step.namespace}/{step.pod}" for step in left)
                self._report(f"waiting for {waits}: {self._wait_seconds - (now - began):.0f} s remaining")
            if left:
                await asyncio.sleep(_POLL_SECONDS)
        return bound

    async def _find_result(self, step: PlannedPlacement) -> str | None:
        """Return the result for a pod; None if the pod is still pending or the API server does not respond."""
        try:
            pod = await self._read(PodRef(step.namespace, step.pod, step.uid))
        except ApiError as exc:
            if exc.unanswered:
                return None
            raise
        if pod is None:
            return "was deleted before it was bound"
        return f"is bound to {pod.spec.node_name}" if pod.spec.node_name else None

    async def _find_reason(self, step: PlannedPlacement) -> str:
        """Return the reason why a pod is not bound, according to the API server."""
        try:
            left = [str(each) for each in _list_evicted(step) if await self._read(each) is not None]
            pod = await self._read(PodRef(step.namespace, step.pod, step.uid))
        except ApiError as exc:
            return exc.message
        if left:
            return f"{', '.join(left)} {'has' if len(left) == 1 else 'have'} not ended"
        conditions = pod.status.conditions or () if pod is not None else ()
        messages = (each.message for each in conditions if each.type == SCHEDULED and each.message)
        return next(messages, "kube-scheduler has not tried to schedule it")

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
            raise ServiceError(f"cannot decode pod {ref}: {exc}") from exc
        return pod if pod.metadata.uid == ref.uid else None


def _list_evicted(step: PlannedPlacement) -> list[PodRef]:
    return [PodRef(each.namespace, each.pod, each.uid) for each in step.evictions]
