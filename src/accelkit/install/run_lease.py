"""Holds the Lease by which one run at a time changes a cluster, for as long as the run's process lives.

Ansible has nothing that goes on beside its tasks, so a process of its own renews the Lease. It ends with the run,
however that ends, and deletes the Lease; where the whole machine ends, the Lease expires.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any, Final

import msgspec

from accelkit.errors import AccelkitError, ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.lease import Elector, build_run_elector, delete_run_lease
from accelkit.kube.options import ConnectionOptions

_RENEW_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 2.0


class RunLease(msgspec.Struct, frozen=True):
    """Who changes the cluster now.

    Attributes:
        held: whether it is the run that asks.
        holder: the identity of the run that holds the Lease; empty where none does.
        since: when it began, in RFC 3339.
        error: why the Lease can be neither read nor acquired; empty where it can.
    """

    held: bool = False
    holder: str = ""
    since: str = ""
    error: str = ""


async def read_run_lease(api: ApiClient, identity: str) -> RunLease:
    """Return who holds the Lease, without asking for it.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    elector = build_run_elector(api, identity)
    await elector.observe()
    return _describe(elector, identity)


async def hold_run_lease(api: ApiClient, identity: str, process: int, tell: Callable[[RunLease], None]) -> None:
    """Acquire the Lease, tell about it once, and hold it until the process ends.

    A Lease that another run renews is left alone. One whose run has died is acquired when it was not renewed for
    RUN_LEASE_SECONDS.

    Args:
        api: an open client.
        identity: names the run, its user and host.
        process: the run's; of this machine.
        tell: called with the outcome.
    """
    elector = build_run_elector(api, identity)
    ended = asyncio.Event()
    # Unlike its number, it never stands for another process.
    descriptor = os.pidfd_open(process)
    asyncio.get_running_loop().add_reader(descriptor, ended.set)
    try:
        if await _acquire(elector, tell, identity):
            await _renew(elector, ended)
        await delete_run_lease(api, elector)
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


async def _acquire(elector: Elector, tell: Callable[[RunLease], None], identity: str) -> bool:
    renewed_at = None
    while True:
        try:
            await elector.observe()
        except ApiError as exc:
            tell(RunLease(error=str(exc)))
            return False
        # Held for this run already, or by one that lives.
        if elector.holder == identity or (elector.holder and renewed_at not in {None, elector.renewed_at}):
            tell(_describe(elector, identity))
            return False
        renewed_at = elector.renewed_at
        await elector.try_acquire_or_renew()
        if elector.leads():
            tell(_describe(elector, identity))
            return True
        await asyncio.sleep(_LOOK_SECONDS)


async def _renew(elector: Elector, ended: asyncio.Event) -> None:
    while not ended.is_set():
        await elector.try_acquire_or_renew()
        try:
            await asyncio.wait_for(ended.wait(), _RENEW_SECONDS)
        except TimeoutError:
            continue


def _describe(elector: Elector, identity: str) -> RunLease:
    holder = elector.holder or ""
    return RunLease(holder == identity, holder, (elector.held_since or "") if holder else "")


def main() -> None:
    """Hold the Lease for the identity and the process of the arguments; connection options are read as JSON."""
    identity, process = sys.argv[1:]
    given: dict[str, Any] = msgspec.json.decode(sys.stdin.buffer.read())

    def tell(found: RunLease) -> None:
        os.write(1, msgspec.json.encode(found) + b"\n")

    async def hold() -> None:
        async with ApiClient(load_connection(ConnectionOptions.collect(given))) as api:
            await hold_run_lease(api, identity, int(process), tell)

    try:
        asyncio.run(hold())
    except AccelkitError as exc:
        tell(RunLease(error=str(exc)))


if __name__ == "__main__":
    main()
