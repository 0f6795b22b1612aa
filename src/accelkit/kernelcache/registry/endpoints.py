"""Requests to the endpoints of a repository (its mirrors and the registry itself), in parallel or sequentially."""

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

# The time, in seconds, for which an unreachable registry is not queried again if its mirrors respond.
_UNREACHABLE_SECONDS: Final = 30.0


class Endpoints:
    """Requests to the endpoints of repositories, with a record of the registries that are unreachable.

    A mirror may lack signatures that the registry has, so the registry is also queried, even if a mirror responds. In
    an air-gapped cluster, the registry is unreachable. If a mirror has responded, only one connection to the registry
    is attempted, followed by a pause of 30 seconds.

    Args:
        settings: the registries, their mirrors and the timeouts.
        clock: a function that returns a monotonic time in seconds.
    """

    def __init__(self, settings: RegistrySettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        # The time of the next attempt and the last error, by the URL of the unreachable registry.
        self._unreachable: dict[str, tuple[float, RegistryError]] = {}

    async def request_all(
        self, reference: Reference, request: Callable[[RegistryEndpoint], Awaitable[T]]
    ) -> list[T | Problem]:
        """Query all mirrors and the registry in parallel; return each response or error, with the registry's last."""
        *mirrors, origin = self._settings.list_endpoints(reference)
        if not mirrors:
            return [await _try(request, origin)]
        async with asyncio.TaskGroup() as group:
            mirror_tasks = [group.create_task(_try(request, mirror)) for mirror in mirrors]
            # The registry is retried only if no mirror responds.
            origin_task = group.create_task(self._request_once(request, origin))
        outcomes, answer = [task.result() for task in mirror_tasks], origin_task.result()
        if isinstance(answer, RegistryError) and answer.unreached:
            if all(map(_is_answer, outcomes)):
                # The stored error is also returned for other images, so it must not be modified.
                answer = copy.copy(answer)
                answer.beside_mirrors = True
            elif not any(map(_is_answer, outcomes)):
                answer = await _try(request, origin)
        return [*outcomes, answer]

    async def request_in_turn(self, reference: Reference, request: Callable[[RegistryEndpoint], Awaitable[T]]) -> T:
        """Query each mirror and then the registry itself, and return the first response.

        Raises:
            RegistryError: no endpoint responded; the error is the registry's error.
        """
        *mirrors, origin = self._settings.list_endpoints(reference)
        problems: list[str] = []
        for mirror in mirrors:
            try:
                return await request(mirror)
            except RegistryError as exc:
                # A response that reports a missing object is not a problem.
                problems += [] if exc.missing else [exc.message]
        try:
            answer = await request(origin)
        except RegistryError as exc:
            # If only mirrors are reachable, their errors are relevant to the user.
            exc.message += f" (errors of its mirrors: {'; '.join(problems)})" if problems else ""
            raise
        self._unreachable.pop(origin.base, None)
        return answer

    async def _request_once(
        self, request: Callable[[RegistryEndpoint], Awaitable[T]], origin: RegistryEndpoint
    ) -> T | Problem:
        until, error = self._unreachable.get(origin.base, (0.0, None))
        if error is not None and self._clock() < until:
            return error
        answer = await _try(request, replace(origin, connects=1))
        if isinstance(answer, RegistryError) and answer.unreached:
            self._unreachable[origin.base] = self._clock() + _UNREACHABLE_SECONDS, answer
        else:
            self._unreachable.pop(origin.base, None)
        return answer


async def _try(request: Callable[[RegistryEndpoint], Awaitable[T]], endpoint: RegistryEndpoint) -> T | Problem:
    try:
        return await request(endpoint)
    except (RegistryError, CacheError) as exc:
        return exc


def _is_answer(outcome: object) -> bool:
    """Return whether an endpoint responded; a status that reports a missing object is also a response."""
    return not isinstance(outcome, RegistryError) or outcome.missing
