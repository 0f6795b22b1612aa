"""Runner for a service whose replicas elect a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from accelkit.kube.lease import Elector


async def run_elected(elector: Elector, parts: Iterable[Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
    """Run a service until `stop` is set or a coroutine fails; then cancel all coroutines and release the Lease.

    Args:
        elector: the elector that competes for the Lease.
        parts: the coroutines of the service.
        stop: the event that stops the service. It is always set when this function returns or raises an exception.

    Raises:
        Exception: the first error of a coroutine or of the election.
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
        # All coroutines of this replica have ended, so another replica may start immediately.
        await elector.release()
        electing.cancel()
        await asyncio.gather(electing, return_exceptions=True)
