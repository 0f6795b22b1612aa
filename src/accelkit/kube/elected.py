"""Runner of a service whose replicas elect a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from accelkit.kube.lease import Elector


async def run_elected(elector: Elector, parts: Iterable[Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
    """Run until `stop` is set or a part fails; then cancel the parts and release the Lease.

    Args:
        elector: the elector, which competes for the Lease.
        parts: the coroutines that run as long as the service.
        stop: an event that stops the service; it is always set when this function returns or raises an exception.

    Raises:
        Exception: the first failure of a part or of the election.
    """
    electing, others = asyncio.create_task(elector.run()), [asyncio.create_task(each) for each in parts]
    stopped = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({stopped, electing, *others}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stop.set()
        for task in (*others, stopped):
            task.cancel()
        await asyncio.gather(*others, stopped, return_exceptions=True)
        # All parts of this replica have ended, so another replica may start at once.
        await elector.release()
        electing.cancel()
        await asyncio.gather(electing, return_exceptions=True)
