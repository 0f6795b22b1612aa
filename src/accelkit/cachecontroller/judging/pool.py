"""Workers that evaluate several images concurrently, at most one per cache, and store the results.

Workers process the namespaces in turn. One namespace cannot use all workers, because a registry may deliberately delay
each response until the timeout.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from accelkit.cachecontroller.deciding.judgement import Judgement, Question
from accelkit.cachecontroller.judging.judge import ImageEvaluator
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.cachecontroller.worklist import Worklist
from accelkit.errors import ApiError
from accelkit.gkm.conditions import Reason
from accelkit.gkm.objects import Cache
from accelkit.kernelcache.oci.reference import parse_reference

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5.0
# Longer than most evaluations, including evaluations that fetch a key or a log entry.
_SLOW_SECONDS: Final = 5.0


class Judging:
    """Schedule, workers and results of image evaluations.

    Args:
        judge: evaluator that sends requests to registries.
        metrics: metrics that count evaluations.
        find: function that returns a cache by its key; None if the cache no longer exists.
        find_question: function that returns the question for a cache; None if the cache's image is not evaluated.
        mark: callback that is called with the key of each cache that has a new result.
        leads: function that returns whether this replica may still write.
        workers: number of `run` coroutines.
    """

    def __init__(
        self,
        judge: ImageEvaluator,
        metrics: ControllerMetrics,
        *,
        find: Callable[[str], Cache | None],
        find_question: Callable[[Cache], Question | None],
        mark: Callable[[str], None],
        leads: Callable[[], bool],
        workers: int,
    ) -> None:
        # One worker remains available for other namespaces, even if it is idle.
        self._most_of_namespace = max(1, workers - 1)
        self._judge, self._metrics = judge, metrics
        self._find, self._find_question, self._mark, self._leads = find, find_question, mark, leads
        self._known: dict[str, Judgement] = {}
        self._registries: dict[str, str] = {}
        self._work: Worklist[str] = Worklist()
        # Registries that were unreachable in the last evaluation, or slow for a namespace. These registries must not
        # block all workers, or delay other namespaces.
        self._unreachable: set[str] = set()
        self._slow: set[tuple[str, str]] = set()
        # Number of evaluations in progress in each namespace; registry and start time of each evaluation in progress.
        self._of_namespaces: Counter[str] = Counter()
        self._under_way: dict[str, tuple[str, float]] = {}

    def __len__(self) -> int:
        return len(self._work)

    def find_judgement(self, key: str) -> Judgement | None:
        """Return the last result for the image of a cache; None before the first result."""
        return self._known.get(key)

    def plan(self, cache: Cache, at: float | None) -> None:
        """Schedule the evaluation of a cache's image at a time in seconds since 1970; None cancels the evaluation."""
        if at is None:
            self._work.drop(cache.key)
        elif cache.key not in self._under_way:
            # At the end of the evaluation in progress, a pass of the cache checks whether the question has changed.
            self._registries[cache.key] = parse_reference(cache.spec.image).registry
            self._work.move(cache.key, max(0.0, at - time.time()))

    def discard(self, key: str) -> None:
        """Discard the schedule and the result of a deleted cache."""
        self._known.pop(key, None)
        self._registries.pop(key, None)
        self._work.drop(key)

    def clear(self) -> None:
        """Cancel all scheduled evaluations because another replica is now the leader."""
        self._work.clear()
        self._known.clear()

    async def run(self) -> None:
        """Evaluate due images sequentially until cancelled; several of these coroutines may run concurrently."""
        while True:
            key = await self._work.take(may=self._may, rank=lambda key: self._of_namespaces[_namespace(key)])
            registry = self._registries.get(key, "")
            self._of_namespaces[_namespace(key)] += 1
            self._under_way[key] = registry, time.monotonic()
            try:
                await self._work_on(key, registry)
            except ApiError as exc:
                log.warning("judgement failed: cache=%s retry_seconds=%g error=%s", key, _RETRY_SECONDS, exc)
                self._work.add(key, _RETRY_SECONDS)
            except Exception:
                # A defect or an unexpected image must not affect other caches.
                log.exception("judgement failed with an internal error: cache=%s", key)
                self._work.add(key, 60.0)
            finally:
                self._of_namespaces[_namespace(key)] -= 1
                self._note_pace(key)
                self._work.done(key)

    async def _work_on(self, key: str, registry: str) -> None:
        cache = self._find(key)
        question = self._find_question(cache) if cache is not None else None
        if cache is None or question is None or not self._leads():
            return
        former = self._known.get(key)
        attempts = former.attempts if former is not None and former.question == question else 0
        started = time.perf_counter()
        judgement = await self._judge.judge(cache, question, attempts)
        if judgement.attempts and former is not None and judgement.digest not in {"", former.digest}:
            # The tag has moved to a different image, which may be signed soon.
            judgement = replace(judgement, attempts=1)
        refused = judgement.refused
        unreachable = refused is not None and refused.reason == Reason.REGISTRY_UNAVAILABLE
        self._unreachable = self._unreachable | {registry} if unreachable else self._unreachable - {registry}
        result = "verified" if refused is None else "retried" if refused.retryable else "refused"
        self._metrics.observe_judgement(result, time.perf_counter() - started)
        log.info(
            "judged image=%s cache=%s result=%s",
            question.image[:200],
            key,
            refused.reason if refused else judgement.digest,
        )
        if self._leads():
            self._known[key] = judgement
            self._mark(key)

    def _note_pace(self, key: str) -> None:
        registry, began = self._under_way.pop(key)
        source = (_namespace(key), registry)
        slow = time.monotonic() - began > _SLOW_SECONDS
        self._slow = self._slow | {source} if slow else self._slow - {source}

    def _may(self, key: str) -> bool:
        namespace, registry = _namespace(key), self._registries.get(key, "")
        if self._of_namespaces[namespace] >= self._most_of_namespace:
            return False
        running = {each: began for each, (of, began) in self._under_way.items() if of == registry}
        if registry in self._unreachable and running:
            return False
        of_namespace = [began for each, began in running.items() if _namespace(each) == namespace]
        if not of_namespace:
            return True
        return (namespace, registry) not in self._slow and time.monotonic() - min(of_namespace) <= _SLOW_SECONDS


def _namespace(key: str) -> str:
    return key.partition("/")[0]
