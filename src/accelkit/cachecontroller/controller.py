"""Control loop that reconciles the objects of each cache with their desired state.

Each pass depends only on the state in the API server. Therefore, any replica can repeat an interrupted pass.
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
from accelkit.cachecontroller.plan_writer import PlanWriter
from accelkit.cachecontroller.worklist import Worklist
from accelkit.errors import AccelkitError, ApiError, NotLeadingError
from accelkit.gkm.conditions import ConditionType, Reason, merge_conditions, state
from accelkit.gkm.objects import Cache, CacheMeta, CacheStatus, Delivery, PvcStatus
from accelkit.model.keys import CACHE_FINALIZER

log = logging.getLogger(__name__)

# Changes arrive in bursts. The first change starts one pass of the cache, and all other changes are handled in a second
# pass.
_SETTLE_SECONDS: Final = 0.1
# The three dependent steps write the claim, its volume, and the annotation that makes Kubernetes process the claim.
_ROUNDS: Final = 3
_PASSES: Final = 4
_BACK_OFF: Final = BackOff(0.5, 60.0)


class Controller:
    """Controller that reconciles all caches while this replica is the leader.

    Args:
        cluster: state of the cluster.
        coverage: SignerPolicies of the cluster.
        applier: writer of changes.
        events: event writer.
        writers: check that delays the creation of a claim as long as existing pods would write to it.
        metrics: metrics that count failed passes.
        again_seconds: interval between verifications of an unchanged image.

    Attributes:
        modes: available delivery modes; set before `run`.
        judging: evaluation of images; set before `run`.
    """

    def __init__(
        self,
        cluster: ClusterState,
        coverage: Coverage,
        plan_writer: PlanWriter,
        events: CacheEvents,
        *,
        writers: WriterCheck,
        metrics: ControllerMetrics,
        again_seconds: float,
    ) -> None:
        self._cluster, self._coverage = cluster, coverage
        self._plan_writer, self._events, self._metrics = plan_writer, events, metrics
        self._writers = writers
        self._again_seconds = again_seconds
        self._work: Worklist[str] = Worklist()
        self._failures: dict[str, int] = {}
        # Start of the last pass of each cache, on a monotonic clock.
        self._last_passes: dict[str, float] = {}
        self._former = FormerDigests()
        self.modes: Mapping[Delivery, DeliveryMode] = {}
        self.judging: Judging | None = None

    def __len__(self) -> int:
        return len(self._work)

    def mark(self, key: str | None) -> None:
        """Schedule a pass for a cache; None for all caches, including deleted caches with remaining objects."""
        for each in (key,) if key is not None else self._cluster.list_keys():
            self._work.add(each, max(0.0, self._last_passes.get(each, 0.0) + _SETTLE_SECONDS - time.monotonic()))

    def find_question(self, cache: Cache) -> Question | None:
        """Return the question to evaluate for a cache; None if the cache's image is not evaluated."""
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
                # The defect does not affect other caches.
                log.exception("pass failed with an internal error: cache=%s", key)
                self._retry(key, None)
            finally:
                self._work.done(key)

    def _retry(self, key: str, exc: AccelkitError | None) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = _BACK_OFF.compute(failures)
        self._metrics.failures.inc()
        # Another client made a change, which the watch will report.
        expected = isinstance(exc, ApiError) and (exc.conflict or exc.not_found) and failures == 1
        if exc is not None and not expected:
            log.warning("pass failed: cache=%s retry_seconds=%g error=%s", key, delay, exc)
        self._work.add(key, delay)

    async def _pass(self, key: str) -> None:
        assert self.judging is not None  # noqa: S101 - set before `run`
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
                # Add the finalizer before creating any object that must be deleted with the cache.
                await self._plan_writer.set_finalizers(cache, [*cache.metadata.finalizers, CACHE_FINALIZER])
                cache = self._cluster.caches.get(key)
            # If a new cache has this name, the watch reports it.
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
            # Write the status before creating claims, because nodes extract the cache as soon as they read the status.
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
        """Apply the plan from the chosen delivery mode, and delete the objects of the other modes."""
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
                # Plan again, so that the status reports an error instead of a pending request.
                plan = await self._check(mode, cache)
            else:
                await self._carry_out(cache, mode, mode.plan_removal(cache, self._cluster))
        return plan

    def _plan(self, mode: DeliveryMode, cache: Cache) -> DeliveryPlan:
        plan = mode.plan(cache, self._cluster)
        given = list_given_claims(cache, self._cluster, self.modes.values())
        return replace(plan, states=admit_taken(plan.states, given))

    async def _check(self, mode: DeliveryMode, cache: Cache) -> DeliveryPlan:
        """Return the part of a new plan that may be applied now."""
        check_taken = partial(self._plan_writer.check_taken, cache, mode)
        return await self._writers.check(cache, self._plan(mode, cache), check_taken)

    async def _carry_out(self, cache: Cache, mode: DeliveryMode, plan: DeliveryPlan) -> bool:
        wrote = await self._plan_writer.apply(cache, mode, plan)
        if wrote:
            # Subsequent steps may depend on these writes.
            self._work.add(cache.key, _SETTLE_SECONDS)
        elif plan.create or plan.patch or plan.delete:
            self._work.add(cache.key, 5.0)
        return wrote

    async def _sweep(self, cache: Cache) -> bool:
        """Delete the remaining objects of a cache; return whether any objects remained."""
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
            # Keep the finalizer until a pass finds no objects to delete.
            return
        if leaving := find_leaving(cache, self._cluster, self.modes.values()):
            # Admission policies protect a claim only while its cache exists. The watch reports the removal of the
            # claim.
            await self._write(cache, describe_leaving(cache, leaving))
            return
        await self._plan_writer.set_finalizers(cache, [each for each in finalizers if each != CACHE_FINALIZER])
        log.info("removed cache=%s", cache.key)

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
        await self._plan_writer.write_status(cache, written)
        if (known := self._cluster.caches.get(cache.key)) is not None:
            self._writers.observe(known)
        await self._events.record_changes(cache, former.conditions, conditions)


def _report_unserved(cache: Cache, chosen: Delivery) -> DeliveryPlan:
    text = f"delivery {chosen.value} is unavailable (see the log of the cache controller); choose another delivery"
    ready = state(ConditionType.READY, Reason.INVALID_SPEC, text, holds=False)
    return DeliveryPlan(states={name: PvcStatus(conditions=[ready]) for name in cache.namespaces})


def _build_placeholder(key: str) -> Cache:
    """Return a placeholder cache with the name of a deleted cache. It is used to find the remaining objects."""
    namespace, _, name = key.partition("/")
    return Cache(CacheMeta(name=name, namespace=namespace))
