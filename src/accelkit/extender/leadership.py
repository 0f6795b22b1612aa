"""Election of the replica that binds: the Service routes requests to the holder of the Lease."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from accelkit.errors import ConfigurationError, NotLeadingError
from accelkit.extender.bindings import SEND_SECONDS, WRITE_SECONDS
from accelkit.extender.endpoint import EndpointWriter, LeaderEndpoint
from accelkit.kube.client import ApiClient
from accelkit.kube.lease import Elector, LeaseName, parse_lease

# Even a busy API server must respond to one of four renewals. After a failover, pods are bound again within 5 s.
LEASE_SECONDS: Final = 3
_TERM_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 0.5
# Time after the acquisition of the Lease during which a Binding from the previous leader can arrive, unless its process
# was suspended. Fencing is faster, and also covers suspended processes.
TAKEOVER_SECONDS: Final = _TERM_SECONDS + SEND_SECONDS + WRITE_SECONDS - LEASE_SECONDS + 1.0


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of the extender; `endpoint` is None if no Service routes to the leader."""

    lease: LeaseName
    identity: str
    endpoint: LeaderEndpoint | None = None


def parse_replica(
    port: int,
    *,
    lease: str | None,
    identity: str | None,
    advertise: str | None,
    service: str | None,
    read_port: int | None = None,
) -> Replica | None:
    """Return the replica that the options describe; None if no Lease is set.

    Raises:
        ConfigurationError: an option is missing or invalid.
    """
    if not lease:
        if service:
            raise ConfigurationError("--service requires --lease", next_step="set --lease NAMESPACE/NAME")
        return None
    name = parse_lease(lease)
    if not identity:
        raise ConfigurationError("--lease requires a name for this replica", next_step="set --identity or POD_NAME")
    if not service:
        return Replica(name, identity)
    try:
        address = str(ipaddress.ip_address(advertise or ""))
    except ValueError as exc:
        raise ConfigurationError(
            f"--service requires an IP address of this replica, not {advertise or ''!r}",
            next_step="set --advertise or POD_IP",
        ) from exc
    return Replica(name, identity, LeaderEndpoint(name.namespace, service, address, port, identity, read_port))


class Leadership:
    """Participant in the leader election. While it holds the Lease, the Service routes to this replica.

    Args:
        api: an open client.
        replica: this replica.
        on_acquired: a function that is called when this replica becomes the leader.
        on_lost: a function that is called when this replica may no longer bind.
    """

    def __init__(
        self, api: ApiClient, replica: Replica, *, on_acquired: Callable[[], None], on_lost: Callable[[], None]
    ) -> None:
        self._writer = EndpointWriter(api, replica.endpoint) if replica.endpoint else None
        self._writing: asyncio.Task[None] | None = None
        self._callbacks = on_acquired, on_lost
        self._elector = Elector(
            api,
            replica.lease,
            replica.identity,
            on_acquired=self._acquired,
            on_lost=self._lost,
            lease_seconds=LEASE_SECONDS,
            term_seconds=_TERM_SECONDS,
            retry_seconds=_RETRY_SECONDS,
            inherit_seconds=TAKEOVER_SECONDS,
        )

    def leads(self) -> bool:
        """Return whether this replica is the leader."""
        return self._elector.leads()

    @property
    def resumed(self) -> bool:
        """Whether no other replica has been the leader since this replica was last the leader."""
        return self._elector.resumed

    @property
    def may_fence(self) -> bool:
        """Whether the previous leader used the same time limits, so that its Lease has expired and fencing is possible.

        If the Lease was missing, the previous leader may not have detected the deletion yet.
        """
        former = self._elector.former_seconds
        return former is not None and former <= LEASE_SECONDS

    def check(self) -> None:
        """Check that this replica is the leader.

        Raises:
            NotLeadingError: this replica is not the leader; the message contains the name of the leader.
        """
        if not self.leads():
            holder = self._elector.holder or "no replica"
            raise NotLeadingError(f"this replica does not bind pods; {holder} holds the Lease")

    async def run(self) -> None:
        """Participate in the election until cancelled."""
        try:
            await self._elector.run()
        finally:
            if self._writing is not None:
                self._writing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._writing

    async def release(self) -> None:
        """Release the Lease, after all work that requires the Lease has finished."""
        await self._elector.release()

    def _acquired(self) -> None:
        self._callbacks[0]()
        if self._writer is not None:
            self._writing = asyncio.create_task(self._writer.run())

    def _lost(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
        self._callbacks[1]()
