"""Keeper, which reconfigures the kube-scheduler of one host after its manifest was replaced, without Ansible.

`kubeadm upgrade` replaces the manifest, and the manifest of a new control-plane node does not contain accelkit's
changes. The keeper on such a node detects this and reconfigures kube-scheduler.
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
from accelkit.kube.views.api import ServerVersion
from accelkit.scheduler.actions import perform
from accelkit.scheduler.arguments import Spec
from accelkit.scheduler.host.host import Host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

COMPONENT: Final = "accelkit-scheduler-keeper"
CHECK_SECONDS: Final = 10.0
# Delay before a retry of a change after which kube-scheduler did not start.
RETRY_SECONDS: Final = 600.0


_version = msgspec.json.Decoder(ServerVersion)


class Keeper:
    """Keeper of one host.

    Args:
        api: an open client.
        connection: the connection to the same API server, which the switch uses.
        host: the host that runs kube-scheduler.
        node: the name of the host's node.
        read_spec: a function that returns the desired settings of kube-scheduler, and raises ConfigurationError if they
            cannot be read.
        clock: a function that returns the seconds of a monotonic clock.
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
        self._difference = self._refused = ""
        self._retry_at = 0.0
        self._reported = ""

    async def keep(self, stop: asyncio.Event) -> None:
        """Check the host until `stop` is set; finish a switch that is in progress."""
        while not stop.is_set():
            await self.check_once()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), CHECK_SECONDS)

    async def check_once(self) -> None:
        """Check the host once; switch it if two consecutive checks find the same difference.

        After two equal results, it is unlikely that another program is still writing the files. Each problem is
        reported once by an Event.
        """
        try:
            await self._check()
        except AccelkitError as exc:
            await self._report(str(exc))

    async def _check(self) -> None:
        version = _version.decode(await self._api.get("/version")).git_version
        spec = msgspec.structs.replace(self._read_spec(), node=self._node, kubernetes_version=version)
        found = await self._perform("compare", spec)
        former, self._difference = self._difference, _digest(found["diff"]) if found["changed"] else ""
        if not self._difference:
            self._reported = ""
        if not self._difference or self._difference != former or self._must_wait():
            return
        async with self._alone() as alone:
            if not alone:
                return
            try:
                await self._perform("apply", spec)
            except AccelkitError:
                self._refused, self._retry_at = self._difference, self._clock() + RETRY_SECONDS
                raise
        sentence = "kube-scheduler did not call the extender, and was configured again to call it"
        await self._events.record(self._mirror, "SchedulerSwitched", sentence)

    async def _perform(self, action: str, spec: Spec) -> dict[str, Any]:
        return await asyncio.to_thread(perform, action, spec, self._host, self._connection)

    def _must_wait(self) -> bool:
        return self._difference == self._refused and self._clock() < self._retry_at

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        """Hold the Lease for runs that change the cluster; yield whether the Lease could be acquired."""
        await self._elector.try_acquire_or_renew()
        if not self._elector.leads():
            # The next attempt uses the same elector, because the elector stores when the Lease last changed.
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

    async def _report(self, sentence: str) -> None:
        if sentence != self._reported:
            self._reported = sentence
            await self._events.record(self._mirror, "SchedulerNotSwitched", sentence, warning=True)


def _digest(diff: list[dict[str, str]]) -> str:
    return hashlib.sha256(msgspec.json.encode(diff)).hexdigest()
