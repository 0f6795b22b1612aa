"""Looks at one cache after another, and brings what is there to what ought to be there.

A pass begins from what the API server shows alone, so one that was interrupted at any point is begun anew, by this
controller or by another one, and goes on.
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

# Changes come in swarms; a cache is looked at for the first one, and then once for the rest of a swarm.
_SETTLE_SECONDS: Final = 0.1
# A claim, its volume, and the mark that has Kubernetes look at both: each is made by what is known of the one before.
_ROUNDS: Final = 3
_PASSES: Final = 4
_BACK_OFF: Final = BackOff(0.5, 60.0)


class Controller:
    """Keeps all caches as they ought to be, while this replica leads.

    Args:
        seen: what the API server shows.
        coverage: its SignerPolicies.
        applier: writes.
        news: writes events.
        writers: keeps claims from pods that would write to them.
        metrics: counts passes that fail.
        again_seconds: after which an image is judged anew.

    Attributes:
        modes: ways of delivery that are served.
        judging: of images; both are set before anything runs.
    """

    def __init__(
        self,
        seen: ClusterState,
        coverage: Coverage,
        applier: Applier,
        news: CacheEvents,
        *,
        writers: WriterCheck,
        metrics: ControllerMetrics,
        again_seconds: float,
    ) -> None:
        self._seen, self._coverage = seen, coverage
        self._applier, self._news, self._metrics = applier, news, metrics
        self._writers = writers
        self._again_seconds = again_seconds
        self._work: Worklist[str] = Worklist()
        self._failures: dict[str, int] = {}
        # When each was looked at last, by the clock that never jumps; only as long as that counts.
        self._looked: dict[str, float] = {}
        self._former = FormerDigests()
        self.modes: Mapping[Delivery, DeliveryMode] = {}
        self.judging: Judging | None = None

    def __len__(self) -> int:
        return len(self._work)

    def mark(self, key: str | None) -> None:
        """Have a cache looked at; None for all, those included that have left objects behind."""
        for each in (key,) if key is not None else self._seen.list_keys():
            self._work.add(each, max(0.0, self._looked.get(each, 0.0) + _SETTLE_SECONDS - time.monotonic()))

    def ask(self, cache: Cache) -> Question | None:
        """Return what is to be judged of a cache; None where nothing is."""
        asked = self._coverage.ask(cache)
        return asked if isinstance(asked, Question) and not cache.metadata.deletion_timestamp else None

    def stop(self) -> None:
        """Look at nothing more, since another replica leads."""
        self._work.clear()
        self._failures.clear()
        self._looked.clear()
        self._writers.clear()

    async def run(self) -> None:
        """Look at caches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_PASSES):
                group.create_task(self._work_on())

    async def _work_on(self) -> None:
        while True:
            key = await self._work.take()
            self._looked[key] = time.monotonic()
            try:
                await self._pass(key)
                self._failures.pop(key, None)
            except NotLeadingError:
                self._work.drop(key)
            except AccelkitError as exc:
                self._retry(key, exc)
            except Exception:
                # A defect: of this cache alone, and told with its traceback.
                log.exception("%s cannot be looked at", key)
                self._retry(key, None)
            finally:
                self._work.done(key)

    def _retry(self, key: str, exc: AccelkitError | None) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = _BACK_OFF.compute(failures)
        self._metrics.failures.inc()
        # Somebody else wrote first, or deleted it, which the watch is about to say.
        expected = isinstance(exc, ApiError) and (exc.conflict or exc.not_found) and failures == 1
        if exc is not None and not expected:
            log.warning("%s is looked at again in %g s: %s", key, delay, exc)
        self._work.add(key, delay)

    async def _pass(self, key: str) -> None:
        assert self.judging is not None  # noqa: S101 - set before anything runs
        cache = self._seen.caches.get(key)
        if cache is None:
            self.judging.forget(key)
            self._former.forget(key)
            self._writers.forget(key)
            self._looked.pop(key, None)
            await self._sweep(_name_gone(key))
        elif cache.metadata.deletion_timestamp:
            self.judging.forget(key)
            await self._remove(cache)
        else:
            if CACHE_FINALIZER not in cache.metadata.finalizers:
                # Before anything is made that it has to see deleted.
                await self._applier.set_finalizers(cache, [*cache.metadata.finalizers, CACHE_FINALIZER])
                cache = self._seen.caches.get(key)
            # Another one of its name may be there by now, which the watch tells.
            if cache is not None and CACHE_FINALIZER in cache.metadata.finalizers:
                await self._maintain(cache, self.judging)

    async def _maintain(self, cache: Cache, judging: Judging) -> None:
        now, key = self._seen.now, cache.key
        self._writers.observe(cache)
        asked = self._coverage.ask(cache)
        decision = decide(cache, asked, judging.find_judgement(key), now=now, again_seconds=self._again_seconds)
        judging.plan(cache, decision.judge_at)
        chosen = choose_delivery(cache)
        status = msgspec.structs.replace(decision.status, delivery=chosen.value)
        decided = msgspec.structs.replace(cache, status=status)
        kept, look_again = self._former.select(decided, self._seen, time.monotonic(), self.modes.values())
        decided.status = msgspec.structs.replace(status, previous_digests=kept)
        mode = self.modes.get(Delivery.NODE) if chosen is Delivery.NODE and decision.serves else None
        if mode is not None and status.resolved_digest != cache.status.resolved_digest:
            # Before claims are made: nodes begin when they read it.
            planned = self._plan(mode, decided).states
            await self._write(cache, assemble_status(decided, decision, planned, self._seen, self._seen.nodes))
            cache = self._seen.caches.get(key, cache)
        plan = await self._deliver(decided, decision, chosen)
        users = self.modes[chosen].list_users(decided, self._seen) if chosen in self.modes else {}
        present = assemble_status(decided, decision, plan.states, self._seen, self._seen.nodes, users=users)
        given = list_given_claims(decided, self._seen, self.modes.values())
        await self._write(cache, admit_writers(present, given, self._seen))
        waits = [each for each in (plan.wake_after, look_again) if each]
        if waits:
            self._work.add(key, min(waits))

    async def _deliver(self, cache: Cache, decision: Decision, chosen: Delivery) -> DeliveryPlan:
        """Carry out what the chosen way plans, and take away what the others have left."""
        plan = DeliveryPlan() if chosen in self.modes else _say_unserved(cache, chosen)
        if not (decision.serves or decision.withdrawn):
            return plan
        for delivery, mode in self.modes.items():
            if delivery is chosen and decision.serves and cache.namespaces:
                for _ in range(_ROUNDS):
                    plan = await self._check(mode, cache)
                    # What was deleted is there until the watch says that it is gone.
                    if not await self._carry_out(cache, mode, plan) or plan.delete:
                        break
                # As it is now, so that what was refused again is not told as being tried.
                plan = await self._check(mode, cache)
            else:
                await self._carry_out(cache, mode, mode.plan_removal(cache, self._seen))
        return plan

    def _plan(self, mode: DeliveryMode, cache: Cache) -> DeliveryPlan:
        plan = mode.plan(cache, self._seen)
        given = list_given_claims(cache, self._seen, self.modes.values())
        return replace(plan, states=admit_taken(plan.states, given))

    async def _check(self, mode: DeliveryMode, cache: Cache) -> DeliveryPlan:
        """Return what of a plan may be carried out now."""
        look_at_taken = partial(self._applier.look_at_taken, cache, mode)
        return await self._writers.check(cache, self._plan(mode, cache), look_at_taken)

    async def _carry_out(self, cache: Cache, mode: DeliveryMode, plan: DeliveryPlan) -> bool:
        wrote = await self._applier.apply(cache, mode, plan)
        if wrote:
            # What was written may call for more, and refusals are shown in the next pass.
            self._work.add(cache.key, _SETTLE_SECONDS)
        elif plan.create or plan.patch or plan.delete:
            self._work.add(cache.key, 5.0)
        return wrote

    async def _sweep(self, cache: Cache) -> bool:
        """Delete what is left of a cache; return whether there was anything."""
        found = False
        for mode in self.modes.values():
            plan = mode.plan_removal(cache, self._seen)
            found |= bool(plan.delete)
            await self._carry_out(cache, mode, plan)
        return found

    async def _remove(self, cache: Cache) -> None:
        finalizers = cache.metadata.finalizers
        if CACHE_FINALIZER not in finalizers:
            return
        users = find_users(cache, self._seen, self.modes.values())
        if users:
            await self._write(cache, describe_removal(cache, users))
            return
        if await self._sweep(cache):
            # Asked for; what the API server did not take is asked for again before the cache goes.
            return
        if leaving := find_leaving(cache, self._seen, self.modes.values()):
            # Admission policies guard a claim only as long as its cache exists. The watch reports its removal.
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
        if (known := self._seen.caches.get(cache.key)) is not None:
            self._writers.observe(known)
        await self._news.tell(cache, former.conditions, conditions)


def _say_unserved(cache: Cache, chosen: Delivery) -> DeliveryPlan:
    text = f"delivery {chosen.value} is not served here, as the controller's log says; choose another one"
    ready = state(ConditionType.READY, Reason.INVALID_SPEC, text, holds=False)
    return DeliveryPlan(states={name: PvcStatus(conditions=[ready]) for name in cache.namespaces})


def _name_gone(key: str) -> Cache:
    """Return what stands for a cache that is gone, when what it left is looked for."""
    namespace, _, name = key.partition("/")
    return Cache(CacheMeta(name=name, namespace=namespace))
