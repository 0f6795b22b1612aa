"""Concurrent work on several caches, and records of failed attempts."""

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
from accelkit.cacheagent.planning.progress import NextStep
from accelkit.cacheagent.planning.world import Attempt, ImageFacts
from accelkit.cacheagent.policy_index import PolicyIndex
from accelkit.cacheagent.preparation import Preparation, note_failure
from accelkit.errors import AccelkitError
from accelkit.kernelcache.compatibility.node_facts import NodeHardware
from accelkit.logs import Facts

log = logging.getLogger(__name__)

_SLOTS: Final = 4
_MAX_IMAGE_FACTS: Final = 5000


class Workers:
    """Runner for work on caches, with at most one task per cache.

    Args:
        store: cache store, which must be open.
        preparation: object that reads and extracts images, already opened as a context manager.
        image_policies: signer policies in the cluster.
        metrics: metrics of the agent.
        node: function that returns the cards and CPU of the node.
        on_end: callback that is called after each task, even if the task failed.
    """

    def __init__(
        self,
        store: Store,
        preparation: Preparation,
        image_policies: PolicyIndex,
        metrics: Metrics,
        *,
        node: Callable[[], NodeHardware],
        on_end: Callable[[], None],
    ) -> None:
        self._store, self._preparation, self._policy_index, self._metrics = store, preparation, image_policies, metrics
        self._node, self._on_end = node, on_end
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # Expected size in bytes of each cache that is being fetched, keyed by cache key.
        self.promised: dict[str, int] = {}
        # Facts about images, keyed by digest.
        self.image_facts: dict[str, ImageFacts] = {}
        # Last failed attempt, keyed by cache key.
        self.attempts: dict[str, Attempt] = {}
        # Pause between fetches, keyed by cache key. Pauses of deleted caches are not removed, because the caches may be
        # created again.
        self.pauses: dict[str, Pause] = {}
        # Each folder, namespace and image for which the registry has granted access since the agent started.
        self._accessed: set[tuple[str, str, str]] = set()

    @property
    def slots(self) -> int:
        """The number of free slots for work."""
        return _SLOTS - len(self._tasks)

    def discard(self, desired_caches: Mapping[str, DesiredCache]) -> None:
        """Delete the state of caches that no longer exist."""
        now = time.monotonic()
        self.attempts = {key: each for key, each in self.attempts.items() if key in desired_caches}
        self.pauses = {key: each for key, each in self.pauses.items() if not each.is_over(now)}
        self._accessed = {each for each in self._accessed if each[0] in self._store.stored}
        if len(self.image_facts) > _MAX_IMAGE_FACTS:
            named = {desired.digest for desired in desired_caches.values()}
            self.image_facts = {digest: each for digest, each in self.image_facts.items() if digest in named}

    async def end(self) -> None:
        """Cancel all work in progress. Pods cannot read partial results."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self, work: Work) -> None:
        """Start work on a cache."""
        key = work.progress.desired.key
        extracts = work.progress.step is NextStep.EXTRACT
        self.promised[key] = work.progress.needs_bytes if extracts else 0
        self._tasks[key] = asyncio.create_task(self._work(work), name=f"cache {key}")

    async def _work(self, work: Work) -> None:
        desired, began = work.progress.desired, time.monotonic()
        try:
            if work.progress.step is NextStep.READ_IMAGE:
                self.image_facts[desired.digest] = await self._preparation.read_image_facts(desired)
            else:
                await self._extract(work)
                self.attempts.pop(desired.key, None)
                log.info(
                    Facts("cache prepared", cache=desired.key, digest=desired.digest, seconds=time.monotonic() - began)
                )
        except AccelkitError as exc:
            self._fail(work, exc)
        except OSError as exc:
            failed = AccelkitError(f"cannot access the disk: {exc}")
            failed.__cause__ = exc
            self._fail(work, failed)
        except Exception as exc:
            # An error in one cache must not stop the agent.
            log.exception("work failed with an internal error: cache=%s", desired.key)
            self._fail(work, AccelkitError(f"{type(exc).__name__}; see the log of the agent"))
        finally:
            self._tasks.pop(desired.key, None)
            self.promised.pop(desired.key, None)
            self._on_end()

    def _fail(self, work: Work, error: AccelkitError) -> None:
        key = work.progress.desired.key
        former = self.attempts.get(key)
        if work.progress.step is NextStep.EXTRACT and former is not None and former.about != work.about:
            # A new path or digest resets the backoff after failures, so the pause is extended instead.
            self._pause(key)
        attempt = note_failure(error, former, work.about, time.monotonic())
        self.attempts[key] = attempt
        self._metrics.failures.labels(attempt.reason).inc()
        log.warning(Facts("cache not prepared", cache=key, reason=attempt.reason, error=attempt.message))

    async def _extract(self, work: Work) -> None:
        desired = work.progress.desired
        policies = self._policy_index.narrow(desired)
        policies_of_image = self._policy_index.find_image_policies([desired])[desired.key]
        if self._is_first_access(desired, policies_of_image.policies):
            # Check access to the registry. Otherwise, stored signatures would be sufficient to use another tenant's
            # files.
            await self._preparation.read_image_facts(desired)
            self._accessed.add((desired.folder, desired.namespace, str(desired.image)))
        result = await self._preparation.extract(desired, policies, self._node(), work.room_bytes)
        self._store.take(result.place.folder.name, result.record, policies_of_image.policies)
        if result.fresh:
            self._pause(desired.key)
            self._metrics.extractions.inc()

    def _is_first_access(self, desired: DesiredCache, policies: str) -> bool:
        """Return whether a folder exists but was never fetched or verified for this namespace and image."""
        stored = self._store.stored.get(desired.folder)
        exists = stored is not None or self._store.find_place(desired.folder).folder.exists()
        known = (desired.folder, desired.namespace, str(desired.image)) in self._accessed
        return exists and not known and (stored is None or not stored.was_fetched(policies))

    def _pause(self, key: str) -> None:
        self.pauses[key] = extend(self.pauses.get(key), time.monotonic())
