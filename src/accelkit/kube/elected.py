"""Runs a service of which one of several replicas acts: its parts beside the election among the replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from accelkit.kube.lease import Elector


async def run_elected(elector: Elector, parts: Iterable[Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
    """Run until `stop` is set, or a part fails; then end the parts, and give the Lease up.

    Args:
        elector: competes for the Lease.
        parts: what else runs; each for as long as the service does.
        stop: ends it; set when it returns or raises, however that came about.

    Raises:
        Exception: that of the part, or of the election, which failed first.
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
        # Nothing of ours is under way any more, so another one may begin at once.
        await elector.release()
        electing.cancel()
        await asyncio.gather(electing, return_exceptions=True)
