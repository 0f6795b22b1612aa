"""Endpoints of a repository, mirrors and the registry itself: asked all together, or one after another."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry.settings import RegistryEndpoint, RegistrySettings

T = TypeVar("T")

Problem = RegistryError | CacheError

# For how long a registry that gave no connection is not asked again beside mirrors that answer.
_AWAY_SECONDS: Final = 30.0


class Endpoints:
    """Asks the endpoints of repositories.

    A mirror may lack signatures that the registry has, so the registry is asked whatever its mirrors say. But behind a
    gap it never answers: where a mirror has answered, a connection is tried once, and then not again for a while.

    Args:
        settings: names, mirrors and patience.
        clock: seconds that never jump.
    """

    def __init__(self, settings: RegistrySettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        # By the registry's URL: until when it is left alone, and why.
        self._away: dict[str, tuple[float, RegistryError]] = {}

    async def ask_all(self, reference: Reference, ask: Callable[[RegistryEndpoint], Awaitable[T]]) -> list[T | Problem]:
        """Ask all mirrors and, last, the registry itself, together, and return each answer or error."""
        *mirrors, origin = self._settings.list_endpoints(reference)
        if not mirrors:
            return [await _try(ask, origin)]
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(_try(ask, mirror)) for mirror in mirrors]
            # More often only where its mirrors are of no use.
            last = group.create_task(self._ask_hastily(ask, origin))
        outcomes, told = [task.result() for task in asked], last.result()
        if isinstance(told, RegistryError) and told.unreached:
            if all(map(_is_answer, outcomes)):
                # What is kept of a registry is told for other images too.
                told = copy.copy(told)
                told.beside_mirrors = True
            elif not any(map(_is_answer, outcomes)):
                told = await _try(ask, origin)
        return [*outcomes, told]

    async def ask_in_turn(self, reference: Reference, ask: Callable[[RegistryEndpoint], Awaitable[T]]) -> T:
        """Ask one mirror after another, then the registry itself, and return the first answer.

        Raises:
            RegistryError: that of the registry.
        """
        *mirrors, origin = self._settings.list_endpoints(reference)
        problems: list[str] = []
        for mirror in mirrors:
            try:
                return await ask(mirror)
            except RegistryError as exc:
                # That it lacks something is an answer.
                problems += [] if exc.missing else [exc.message]
        try:
            answer = await ask(origin)
        except RegistryError as exc:
            # Where only mirrors can be reached, their errors are what has to be mended.
            exc.message += f" (and before: {'; '.join(problems)})" if problems else ""
            raise
        self._away.pop(origin.base, None)
        return answer

    async def _ask_hastily(
        self, ask: Callable[[RegistryEndpoint], Awaitable[T]], origin: RegistryEndpoint
    ) -> T | Problem:
        until, error = self._away.get(origin.base, (0.0, None))
        if error is not None and self._clock() < until:
            return error
        told = await _try(ask, replace(origin, connects=1))
        if isinstance(told, RegistryError) and told.unreached:
            self._away[origin.base] = self._clock() + _AWAY_SECONDS, told
        else:
            self._away.pop(origin.base, None)
        return told


async def _try(ask: Callable[[RegistryEndpoint], Awaitable[T]], endpoint: RegistryEndpoint) -> T | Problem:
    try:
        return await ask(endpoint)
    except (RegistryError, CacheError) as exc:
        return exc


def _is_answer(outcome: object) -> bool:
    """Return whether an endpoint said something of what was asked, were it that there is no such thing."""
    return not isinstance(outcome, RegistryError) or outcome.missing
