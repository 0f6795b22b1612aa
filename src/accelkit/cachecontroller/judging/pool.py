"""Judges images beside the passes: so many at once, each cache's at most once, and what was learnt is kept.

Namespaces take turns, and none has all workers: a registry may answer slowly on purpose, for as long as each of our
deadlines.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from accelkit.cachecontroller.deciding.judgement import Judgement, Question
from accelkit.cachecontroller.judging.judge import Judge
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.cachecontroller.worklist import Worklist
from accelkit.errors import ApiError
from accelkit.gkm.conditions import Reason
from accelkit.gkm.objects import Cache
from accelkit.kernelcache.oci.reference import parse_reference

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5.0
# Longer than most take that have to ask for a key or a log as well.
_SLOW_SECONDS: Final = 5.0


class Judging:
    """Judgements by cache, and who asks for them.

    Args:
        judge: asks registries.
        metrics: counts them.
        find: returns a cache by its key; None where it is gone.
        ask: returns what is to be judged of a cache; None where nothing is.
        mark: told the key of each cache of which something was learnt.
        leads: whether we may still write what is learnt.
        workers: how many of `run` there are.
    """

    def __init__(
        self,
        judge: Judge,
        metrics: ControllerMetrics,
        *,
        find: Callable[[str], Cache | None],
        ask: Callable[[Cache], Question | None],
        mark: Callable[[str], None],
        leads: Callable[[], bool],
        workers: int,
    ) -> None:
        # One is left to others, also where nobody else asks yet.
        self._most_of_namespace = max(1, workers - 1)
        self._judge, self._metrics = judge, metrics
        self._find, self._ask, self._mark, self._leads = find, ask, mark, leads
        self._known: dict[str, Judgement] = {}
        self._registries: dict[str, str] = {}
        self._work: Worklist[str] = Worklist()
        # Registries that were not there when they were last asked: those that let everybody wait must not keep all
        # workers. Nor must those that were slow for a namespace; a large image there makes nobody else wait.
        self._away: set[str] = set()
        self._slow: set[tuple[str, str]] = set()
        # How many are judged now, by namespace; of which registry each is, and when it began.
        self._of_namespaces: Counter[str] = Counter()
        self._under_way: dict[str, tuple[str, float]] = {}

    def __len__(self) -> int:
        return len(self._work)

    def find_judgement(self, key: str) -> Judgement | None:
        """Return what was last learnt of a cache's image."""
        return self._known.get(key)

    def plan(self, cache: Cache, at: float | None) -> None:
        """Have a cache's image judged at a time, in seconds since 1970; None for never."""
        if at is None:
            self._work.drop(cache.key)
        elif cache.key not in self._under_way:
            # Else its end has the cache looked at, and then it is known whether that was the right question.
            self._registries[cache.key] = parse_reference(cache.spec.image).registry
            self._work.move(cache.key, max(0.0, at - time.time()))

    def forget(self, key: str) -> None:
        """Forget a cache that is gone."""
        self._known.pop(key, None)
        self._registries.pop(key, None)
        self._work.drop(key)

    def clear(self) -> None:
        """Judge nothing more, since another replica does."""
        self._work.clear()
        self._known.clear()

    async def run(self) -> None:
        """Judge what is due, one after another, until cancelled; several of these may run."""
        while True:
            key = await self._work.take(may=self._may, rank=lambda key: self._of_namespaces[_namespace(key)])
            registry = self._registries.get(key, "")
            self._of_namespaces[_namespace(key)] += 1
            self._under_way[key] = registry, time.monotonic()
            try:
                await self._work_on(key, registry)
            except ApiError as exc:
                log.warning("the image of %s is judged again in %g s: %s", key, _RETRY_SECONDS, exc)
                self._work.add(key, _RETRY_SECONDS)
            except Exception:
                # A defect, or an image that nobody thought of: of this cache alone.
                log.exception("the image of %s cannot be judged", key)
                self._work.add(key, 60.0)
            finally:
                self._of_namespaces[_namespace(key)] -= 1
                self._note_pace(key)
                self._work.done(key)

    async def _work_on(self, key: str, registry: str) -> None:
        cache = self._find(key)
        question = self._ask(cache) if cache is not None else None
        if cache is None or question is None or not self._leads():
            return
        former = self._known.get(key)
        attempts = former.attempts if former is not None and former.question == question else 0
        started = time.perf_counter()
        judgement = await self._judge.judge(cache, question, attempts)
        if judgement.attempts and former is not None and judgement.digest not in {"", former.digest}:
            # Another image: somebody is about to sign it.
            judgement = replace(judgement, attempts=1)
        refused = judgement.refused
        away = refused is not None and refused.reason == Reason.REGISTRY_UNAVAILABLE
        self._away = self._away | {registry} if away else self._away - {registry}
        result = "verified" if refused is None else "retried" if refused.retryable else "refused"
        self._metrics.observe_judgement(result, time.perf_counter() - started)
        log.info("image %s of %s: %s", question.image[:200], key, refused.reason if refused else judgement.digest)
        if self._leads():
            self._known[key] = judgement
            self._mark(key)

    def _note_pace(self, key: str) -> None:
        registry, began = self._under_way.pop(key)
        asked = (_namespace(key), registry)
        slow = time.monotonic() - began > _SLOW_SECONDS
        self._slow = self._slow | {asked} if slow else self._slow - {asked}

    def _may(self, key: str) -> bool:
        namespace, registry = _namespace(key), self._registries.get(key, "")
        if self._of_namespaces[namespace] >= self._most_of_namespace:
            return False
        asked = {each: began for each, (of, began) in self._under_way.items() if of == registry}
        if registry in self._away and asked:
            return False
        of_namespace = [began for each, began in asked.items() if _namespace(each) == namespace]
        if not of_namespace:
            return True
        return (namespace, registry) not in self._slow and time.monotonic() - min(of_namespace) <= _SLOW_SECONDS


def _namespace(key: str) -> str:
    return key.partition("/")[0]
