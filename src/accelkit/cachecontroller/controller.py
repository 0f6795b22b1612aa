"""Control loop that processes one cache after another and reconciles its objects with the desired state.

A pass only uses the state on the API server. So this replica or another one can repeat a pass that was interrupted at
any point.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec

from accelkit.back_off import BackOff
from accelkit.cachecontroller.applier import Applier
from accelkit.cachecontroller.cache_events import CacheEvents
from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.deciding.former_digests import FormerDigests
from accelkit.cachecontroller.deciding.given_claims import admit_taken, admit_writers, list_given_claims
from accelkit.cachecontroller.deciding.judgement import Decision, Question, decide
from accelkit.cachecontroller.deciding.removal import (
    describe_leaving,
    describe_removal,
    find_leaving,
    find_users,
)
from accelkit.cachecontroller.deciding.status import assemble_status, choose_delivery
from accelkit.cachecontroller.delivery import DeliveryMode, DeliveryPlan
from accelkit.cachecontroller.judging.coverage import Coverage
from accelkit.cachecontroller.judging.pool import Judging
from accelkit.cachecontroller.live_reads.writer_check import WriterCheck
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.cachecontroller.worklist import Worklist
from accelkit.errors import AccelkitError, ApiError, NotLeadingError
from accelkit.gkm.conditions import ConditionType, Reason, merge_conditions, state
from accelkit.gkm.objects import Cache, CacheMeta, CacheStatus, Delivery, PvcStatus
from accelkit.model.keys import CACHE_FINALIZER

log = logging.getLogger(__name__)

# Changes arrive in groups; a cache gets one pass for the first change and another one for the rest of the group.
_SETTLE_SECONDS: Final = 0.1
# A claim, its volume, and the annotation that triggers Kubernetes: each depends on the previous object.
_ROUNDS: Final = 3
_PASSES: Final = 4
_BACK_OFF: Final = BackOff(0.5, 60.0)


class Controller:
    """Reconciles all caches while this replica leads.

    Args:
        cluster: state of the cluster.
        coverage: the SignerPolicies of the cluster.
        applier: writes changes.
        events: writes Events.
        writers: withholds claims from pods that would write to them.
        metrics: counts failed passes.
        again_seconds: interval after which an image is verified again.

    Attributes:
        modes: the available delivery modes.
        judging: verifies images. Both attributes are set before the controller runs.
    """

    def __init__(
        self,
        cluster: ClusterState,
        coverage: Coverage,
        applier: Applier,
        events: CacheEvents,
        *,
        writers: WriterCheck,
        metrics: ControllerMetrics,
        again_seconds: float,
    ) -> None:
        self._cluster, self._coverage = cluster, coverage
        self._applier, self._events, self._metrics = applier, events, metrics
        self._writers = writers
        self._again_seconds = again_seconds
        self._work: Worklist[str] = Worklist()
        self._failures: dict[str, int] = {}
        # Time of each cache's last pass on a monotonic clock.
        self._last_passes: dict[str, float] = {}
        self._former = FormerDigests()
        self.modes: Mapping[Delivery, DeliveryMode] = {}
        self.judging: Judging | None = None

    def __len__(self) -> int:
        return len(self._work)

    def mark(self, key: str | None) -> None:
        """Schedule a pass of a cache; None for all caches, including deleted ones that left objects behind."""
        for each in (key,) if key is not None else self._cluster.list_keys():
            self._work.add(each, max(0.0, self._last_passes.get(each, 0.0) + _SETTLE_SECONDS - time.monotonic()))

    def find_question(self, cache: Cache) -> Question | None:
        """Return the question to judge about a cache; None if there is none."""
        question = self._coverage.find_question(cache)
        return question if isinstance(question, Question) and not cache.metadata.deletion_timestamp else None

    def stop(self) -> None:
        """Cancel all scheduled passes because another replica is now the leader."""
        self._work.clear()
        self._failures.clear()
        self._last_passes.clear()
        self._writers.clear()

    async def run(self) -> None:
        """Process caches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_PASSES):
                group.create_task(self._work_on())

    async def _work_on(self) -> None:
        while True:
            key = await self._work.take()
            self._last_passes[key] = time.monotonic()
            try:
                await self._pass(key)
                self._failures.pop(key, None)
            except NotLeadingError:
                self._work.drop(key)
            except AccelkitError as exc:
                self._retry(key, exc)
            except Exception:
                # A defect affects only this cache, and is logged with its traceback.
                log.exception("the pass of %s failed because of a defect", key)
                self._retry(key, None)
            finally:
                self._work.done(key)

    def _retry(self, key: str, exc: AccelkitError | None) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = _BACK_OFF.compute(failures)
        self._metrics.failures.inc()
        # Another client changed or deleted the object first, and the watch will report it.
        expected = isinstance(exc, ApiError) and (exc.conflict or exc.not_found) and failures == 1
        if exc is not None and not expected:
            log.warning("the pass of %s failed, next attempt in %g s: %s", key, delay, exc)
        self._work.add(key, delay)

    async def _pass(self, key: str) -> None:
        assert self.judging is not None  # noqa: S101 - set before anything runs
        cache = self._cluster.caches.get(key)
        if cache is None:
            self.judging.discard(key)
            self._former.discard(key)
            self._writers.discard(key)
            self._last_passes.pop(key, None)
            await self._sweep(_build_placeholder(key))
        elif cache.metadata.deletion_timestamp:
            self.judging.discard(key)
            await self._remove(cache)
        else:
            if CACHE_FINALIZER not in cache.metadata.finalizers:
                # The finalizer comes before all objects that must be deleted with the cache.
                await self._applier.set_finalizers(cache, [*cache.metadata.finalizers, CACHE_FINALIZER])
                cache = self._cluster.caches.get(key)
            # Another cache may have this name by now; if so, the watch reports it.
            if cache is not None and CACHE_FINALIZER in cache.metadata.finalizers:
                await self._maintain(cache, self.judging)

    async def _maintain(self, cache: Cache, judging: Judging) -> None:
        now, key = self._cluster.now, cache.key
        self._writers.observe(cache)
        question = self._coverage.find_question(cache)
        decision = decide(cache, question, judging.find_judgement(key), now=now, again_seconds=self._again_seconds)
        judging.plan(cache, decision.judge_at)
        chosen = choose_delivery(cache)
        status = msgspec.structs.replace(decision.status, delivery=chosen.value)
        decided = msgspec.structs.replace(cache, status=status)
        kept, retry_after = self._former.select(decided, self._cluster, time.monotonic(), self.modes.values())
        decided.status = msgspec.structs.replace(status, previous_digests=kept)
        mode = self.modes.get(Delivery.NODE) if chosen is Delivery.NODE and decision.serves else None
        if mode is not None and status.resolved_digest != cache.status.resolved_digest:
            # Write the status before claims are created, because nodes start their work when they read it.
            planned = self._plan(mode, decided).states
            await self._write(cache, assemble_status(decided, decision, planned, self._cluster, self._cluster.nodes))
            cache = self._cluster.caches.get(key, cache)
        plan = await self._deliver(decided, decision, chosen)
        users = self.modes[chosen].list_users(decided, self._cluster) if chosen in self.modes else {}
        present = assemble_status(decided, decision, plan.states, self._cluster, self._cluster.nodes, users=users)
        given = list_given_claims(decided, self._cluster, self.modes.values())
        await self._write(cache, admit_writers(present, given, self._cluster))
        waits = [each for each in (plan.wake_after, retry_after) if each]
        if waits:
            self._work.add(key, min(waits))

    async def _deliver(self, cache: Cache, decision: Decision, chosen: Delivery) -> DeliveryPlan:
        """Apply the plan of the chosen delivery mode, and delete the objects of the other modes."""
        plan = DeliveryPlan() if chosen in self.modes else _report_unserved(cache, chosen)
        if not (decision.serves or decision.withdrawn):
            return plan
        for delivery, mode in self.modes.items():
            if delivery is chosen and decision.serves and cache.namespaces:
                for _ in range(_ROUNDS):
                    plan = await self._check(mode, cache)
                    # Deleted objects exist until the watch reports their deletion.
                    if not await self._carry_out(cache, mode, plan) or plan.delete:
                        break
                # Read the latest state, so that a repeated refusal is not reported as an attempt in progress.
                plan = await self._check(mode, cache)
            else:
                await self._carry_out(cache, mode, mode.plan_removal(cache, self._cluster))
        return plan

    def _plan(self, mode: DeliveryMode, cache: Cache) -> DeliveryPlan:
        plan = mode.plan(cache, self._cluster)
        given = list_given_claims(cache, self._cluster, self.modes.values())
        return replace(plan, states=admit_taken(plan.states, given))

    async def _check(self, mode: DeliveryMode, cache: Cache) -> DeliveryPlan:
        """Return the part of a plan that may be applied now."""
        check_taken = partial(self._applier.check_taken, cache, mode)
        return await self._writers.check(cache, self._plan(mode, cache), check_taken)

    async def _carry_out(self, cache: Cache, mode: DeliveryMode, plan: DeliveryPlan) -> bool:
        wrote = await self._applier.apply(cache, mode, plan)
        if wrote:
            # Further steps may depend on these writes, and the next pass reports refusals.
            self._work.add(cache.key, _SETTLE_SECONDS)
        elif plan.create or plan.patch or plan.delete:
            self._work.add(cache.key, 5.0)
        return wrote

    async def _sweep(self, cache: Cache) -> bool:
        """Delete the remaining objects of a cache; return whether there were any."""
        found = False
        for mode in self.modes.values():
            plan = mode.plan_removal(cache, self._cluster)
            found |= bool(plan.delete)
            await self._carry_out(cache, mode, plan)
        return found

    async def _remove(self, cache: Cache) -> None:
        finalizers = cache.metadata.finalizers
        if CACHE_FINALIZER not in finalizers:
            return
        users = find_users(cache, self._cluster, self.modes.values())
        if users:
            await self._write(cache, describe_removal(cache, users))
            return
        if await self._sweep(cache):
            # Before the finalizer is removed, repeat the deletions that the API server did not accept.
            return
        if leaving := find_leaving(cache, self._cluster, self.modes.values()):
            # Admission policies guard a claim only as long as its cache exists. The watch reports when the claim is
            # removed.
            await self._write(cache, describe_leaving(cache, leaving))
            return
        await self._applier.set_finalizers(cache, [each for each in finalizers if each != CACHE_FINALIZER])
        log.info("%s is removed", cache.key)

    async def _write(self, cache: Cache, present: CacheStatus) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        former = cache.status
        generation = cache.metadata.generation
        conditions = merge_conditions(former.conditions, present.conditions, now=now, generation=generation)
        states = {
            name: msgspec.structs.replace(
                each,
                conditions=merge_conditions(
                    former.pvc_status[name].conditions if name in former.pvc_status else (),
                    each.conditions,
                    now=now,
                    generation=generation,
                ),
            )
            for name, each in present.pvc_status.items()
        }
        written = msgspec.structs.replace(
            present,
            conditions=conditions,
            pvc_status=states,
            observed_generation=generation,
            last_updated=former.last_updated,
        )
        if written == former:
            return
        written.last_updated = now
        self._writers.expect(cache.key, written)
        await self._applier.write_status(cache, written)
        if (known := self._cluster.caches.get(cache.key)) is not None:
            self._writers.observe(known)
        await self._events.record_changes(cache, former.conditions, conditions)


def _report_unserved(cache: Cache, chosen: Delivery) -> DeliveryPlan:
    text = f"delivery {chosen.value} is not served here, as the controller's log says; choose another one"
    ready = state(ConditionType.READY, Reason.INVALID_SPEC, text, holds=False)
    return DeliveryPlan(states={name: PvcStatus(conditions=[ready]) for name in cache.namespaces})


def _build_placeholder(key: str) -> Cache:
    """Return a placeholder for a deleted cache, with which its remaining objects are found."""
    namespace, _, name = key.partition("/")
    return Cache(CacheMeta(name=name, namespace=namespace))
