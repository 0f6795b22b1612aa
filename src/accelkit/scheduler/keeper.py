"""Keeps the kube-scheduler of one host switched, without Ansible.

`kubeadm upgrade` writes the manifest anew, and a new control-plane node has one that nobody has switched. A keeper on
each of these nodes sees it and lets the engine switch it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accelkit.errors import AccelkitError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection
from accelkit.kube.events import Events, ObjectReference
from accelkit.kube.lease import Elector, build_run_elector, delete_run_lease
from accelkit.scheduler.actions import perform
from accelkit.scheduler.arguments import Spec
from accelkit.scheduler.host.host import Host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

COMPONENT: Final = "accelkit-scheduler-keeper"
LOOK_SECONDS: Final = 10.0
# How long a change with which kube-scheduler did not come back is not tried again.
RETRY_SECONDS: Final = 600.0


class _Version(msgspec.Struct, rename="camel"):
    git_version: str


_version = msgspec.json.Decoder(_Version)


class Keeper:
    """Looks at one host, again and again.

    Args:
        api: an open client.
        connection: the same API server, for the engine.
        host: whose kube-scheduler it is.
        node: its name.
        read_spec: returns what kube-scheduler shall be told by now; ConfigurationError where that cannot be read.
        clock: in seconds.
    """

    def __init__(
        self,
        api: ApiClient,
        connection: Connection,
        host: Host,
        node: str,
        read_spec: Callable[[], Spec],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._connection, self._host, self._node = api, connection, host, node
        self._read_spec, self._clock = read_spec, clock
        self._events = Events(api, COMPONENT, node)
        self._mirror = ObjectReference("Pod", f"kube-scheduler-{node}", "kube-system")
        self._elector = self._make_elector()
        self._seen = self._refused = ""
        self._retry_at = 0.0
        self._told = ""

    async def keep(self, stop: asyncio.Event) -> None:
        """Look until told to stop; a switch that has begun is finished."""
        while not stop.is_set():
            await self.look()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_SECONDS)

    async def look(self) -> None:
        """Look once; switch what was found the same way twice, since its writer may not be done.

        Problems are told by an Event, once each.
        """
        try:
            await self._look()
        except AccelkitError as exc:
            await self._complain(str(exc))

    async def _look(self) -> None:
        version = _version.decode(await self._api.get("/version")).git_version
        spec = msgspec.structs.replace(self._read_spec(), node=self._node, kubernetes_version=version)
        found = await self._perform("compare", spec)
        former, self._seen = self._seen, _digest(found["diff"]) if found["changed"] else ""
        if not self._seen:
            self._told = ""
        if not self._seen or self._seen != former or self._must_wait():
            return
        async with self._alone() as alone:
            if not alone:
                return
            try:
                await self._perform("apply", spec)
            except AccelkitError:
                self._refused, self._retry_at = self._seen, self._clock() + RETRY_SECONDS
                raise
        sentence = "kube-scheduler was found without the extender, and calls it again"
        await self._events.record(self._mirror, "SchedulerSwitched", sentence)

    async def _perform(self, action: str, spec: Spec) -> dict[str, Any]:
        return await asyncio.to_thread(perform, action, spec, self._host, self._connection)

    def _must_wait(self) -> bool:
        return self._seen == self._refused and self._clock() < self._retry_at

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        """Hold the Lease of runs that change the cluster; yields whether it could be acquired."""
        await self._elector.try_acquire_or_renew()
        if not self._elector.leads():
            # Asked by the same elector the next time, which knows how long nobody has renewed it.
            yield False
            return
        renewing = asyncio.create_task(self._elector.run())
        try:
            yield True
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
            await delete_run_lease(self._api, self._elector)
            self._elector = self._make_elector()

    def _make_elector(self) -> Elector:
        return build_run_elector(self._api, f"{COMPONENT} on {self._node}")

    async def _complain(self, sentence: str) -> None:
        if sentence != self._told:
            self._told = sentence
            await self._events.record(self._mirror, "SchedulerNotSwitched", sentence, warning=True)


def _digest(diff: list[dict[str, str]]) -> str:
    return hashlib.sha256(msgspec.json.encode(diff)).hexdigest()
