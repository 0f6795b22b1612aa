"""Lease that allows only one run at a time to change a cluster. A run holds it while its process exists.

Ansible cannot run code in parallel with its tasks. Therefore, a separate process renews the Lease, and deletes it when
the run ends. If the machine fails, the Lease expires.
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
_POLL_SECONDS: Final = 2.0


class RunLease(msgspec.Struct, frozen=True):
    """The run that is currently changing the cluster.

    Attributes:
        held: whether the requesting run holds the Lease.
        holder: the identity of the run that holds the Lease; empty if no run holds it.
        since: the start time of that run in RFC 3339 format.
        error: the reason why the Lease cannot be read or acquired; empty if there is no error.
    """

    held: bool = False
    holder: str = ""
    since: str = ""
    error: str = ""


async def read_run_lease(api: ApiClient, identity: str) -> RunLease:
    """Return the holder of the Lease. Do not try to acquire it.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    elector = build_run_elector(api, identity)
    await elector.observe()
    return _describe(elector, identity)


async def hold_run_lease(api: ApiClient, identity: str, process: int, report: Callable[[RunLease], None]) -> None:
    """Acquire the Lease, report the result once, and renew the Lease until the process exits.

    A Lease that another run is renewing is not modified. The Lease of a run that has ended can be acquired when it has
    not been renewed for RUN_LEASE_SECONDS.

    Args:
        api: an open client.
        identity: the identity of the run, which contains its user and host.
        process: the ID of the run's process on this machine.
        report: a callback that receives the result.
    """
    elector = build_run_elector(api, identity)
    ended = asyncio.Event()
    # Unlike a process ID, the descriptor cannot refer to another process later.
    descriptor = os.pidfd_open(process)
    asyncio.get_running_loop().add_reader(descriptor, ended.set)
    try:
        if await _acquire(elector, report, identity):
            await _renew(elector, ended)
        await delete_run_lease(api, elector)
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


async def _acquire(elector: Elector, report: Callable[[RunLease], None], identity: str) -> bool:
    renewed_at = None
    while True:
        try:
            await elector.observe()
        except ApiError as exc:
            report(RunLease(error=str(exc)))
            return False
        # This run already holds the Lease, or another run is renewing it.
        if elector.holder == identity or (elector.holder and renewed_at not in {None, elector.renewed_at}):
            report(_describe(elector, identity))
            return False
        renewed_at = elector.renewed_at
        await elector.try_acquire_or_renew()
        if elector.leads():
            report(_describe(elector, identity))
            return True
        await asyncio.sleep(_POLL_SECONDS)


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
    """Hold the Lease for the identity and process in the arguments. Read the connection options as JSON from stdin."""
    identity, process = sys.argv[1:]
    given: dict[str, Any] = msgspec.json.decode(sys.stdin.buffer.read())

    def report(found: RunLease) -> None:
        os.write(1, msgspec.json.encode(found) + b"\n")

    async def hold() -> None:
        async with ApiClient(load_connection(ConnectionOptions.collect(given))) as api:
            await hold_run_lease(api, identity, int(process), report)

    try:
        asyncio.run(hold())
    except AccelkitError as exc:
        report(RunLease(error=str(exc)))


if __name__ == "__main__":
    main()
