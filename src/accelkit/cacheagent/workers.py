"""Works on several caches at once, and remembers how each work ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from accelkit.cacheagent.disk.store import Store
from accelkit.cacheagent.metrics import Metrics
from accelkit.cacheagent.planning.desired_caches import DesiredCache
from accelkit.cacheagent.planning.pauses import Pause, extend
from accelkit.cacheagent.planning.plan import Work
from accelkit.cacheagent.planning.progress import Step
from accelkit.cacheagent.planning.world import Attempt, Learned
from accelkit.cacheagent.policy_index import PolicyIndex
from accelkit.cacheagent.preparation import Preparation, note_failure
from accelkit.errors import AccelkitError
from accelkit.kernelcache.compatibility.node_facts import NodeFacts
from accelkit.logs import Facts

log = logging.getLogger(__name__)

_SLOTS: Final = 4
_MAX_LEARNED: Final = 5000


class Workers:
    """Work under way, at most one on each cache.

    Args:
        store: an open one.
        preparation: an open one.
        image_policies: the cluster's policies.
        metrics: what is counted.
        node: returns the cards that caches are for.
        on_end: called when work has ended, however.
    """

    def __init__(
        self,
        store: Store,
        preparation: Preparation,
        image_policies: PolicyIndex,
        metrics: Metrics,
        *,
        node: Callable[[], NodeFacts],
        on_end: Callable[[], None],
    ) -> None:
        self._store, self._preparation, self._policy_index, self._metrics = store, preparation, image_policies, metrics
        self._node, self._on_end = node, on_end
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # By key, the bytes that work under way is expected to take.
        self.promised: dict[str, int] = {}
        # By digest, what images say of themselves.
        self.learned: dict[str, Learned] = {}
        # By key, how the last work ended, where it failed.
        self.attempts: dict[str, Attempt] = {}
        # By key, when it may be fetched again; also of caches that are gone, which may come again.
        self.pauses: dict[str, Pause] = {}

    @property
    def slots(self) -> int:
        """How much more work may begin."""
        return _SLOTS - len(self._tasks)

    def forget(self, desired_caches: Mapping[str, DesiredCache]) -> None:
        """Forget what is known of caches that are gone."""
        now = time.monotonic()
        self.attempts = {key: each for key, each in self.attempts.items() if key in desired_caches}
        self.pauses = {key: each for key, each in self.pauses.items() if not each.is_over(now)}
        if len(self.learned) > _MAX_LEARNED:
            named = {desired.digest for desired in desired_caches.values()}
            self.learned = {digest: each for digest, each in self.learned.items() if digest in named}

    async def end(self) -> None:
        """End what is under way; nothing of it is visible."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self, work: Work) -> None:
        """Begin work on a cache."""
        key = work.progress.desired.key
        extracts = work.progress.step is Step.EXTRACT
        self.promised[key] = work.progress.needs_bytes if extracts else 0
        self._tasks[key] = asyncio.create_task(self._work(work), name=f"cache {key}")

    async def _work(self, work: Work) -> None:
        desired, began = work.progress.desired, time.monotonic()
        try:
            if work.progress.step is Step.LEARN:
                self.learned[desired.digest] = await self._preparation.learn(desired)
            else:
                await self._extract(work)
                self.attempts.pop(desired.key, None)
                log.info(
                    Facts("cache prepared", cache=desired.key, digest=desired.digest, seconds=time.monotonic() - began)
                )
        except AccelkitError as exc:
            self._fail(work, exc)
        except OSError as exc:
            failed = AccelkitError(f"the disk failed: {exc}")
            failed.__cause__ = exc
            self._fail(work, failed)
        except Exception as exc:
            # One cache must not end the agent.
            log.exception("work on cache %s met a defect", desired.key)
            self._fail(work, AccelkitError(f"{type(exc).__name__}; the agent's log has more"))
        finally:
            self._tasks.pop(desired.key, None)
            self.promised.pop(desired.key, None)
            self._on_end()

    def _fail(self, work: Work, error: AccelkitError) -> None:
        key = work.progress.desired.key
        former = self.attempts.get(key)
        if work.progress.step is Step.EXTRACT and former is not None and former.about != work.about:
            # Another back-off begins with another path or digest.
            self._pause(key)
        attempt = note_failure(error, former, work.about, time.monotonic())
        self.attempts[key] = attempt
        self._metrics.failures.labels(attempt.reason).inc()
        log.warning(Facts("cache not prepared", cache=key, reason=attempt.reason, error=attempt.message))

    async def _extract(self, work: Work) -> None:
        desired = work.progress.desired
        policies = self._policy_index.narrow(desired)
        policies_of_image = self._policy_index.find_image_policies([desired])[desired.key]
        result = await self._preparation.extract(desired, policies, self._node(), work.room_bytes)
        self._store.take(result.place.folder.name, result.record, policies_of_image.policies)
        if result.fresh:
            self._pause(desired.key)
            self._metrics.extractions.inc()

    def _pause(self, key: str) -> None:
        self.pauses[key] = extend(self.pauses.get(key), time.monotonic())
