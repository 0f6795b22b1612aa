"""The parts of a service end before its Lease is given up, whatever ends it."""

import asyncio

import pytest

from accelkit.kube.elected import run_elected


class Recorder:
    """An election, and a part, that tell what came to an end, in order."""

    def __init__(self):
        self.ended = []

    async def run(self):
        await self._work("election")

    async def release(self):
        self.ended.append("lease")

    async def part(self):
        await self._work("part")

    async def _work(self, name):
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(name)


async def test_shutdown_stops_parts_then_releases_lease_then_stops_election():
    recorder, stop = Recorder(), asyncio.Event()
    running = asyncio.create_task(run_elected(recorder, [recorder.part()], stop))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(running, 60)
    assert recorder.ended == ["part", "lease", "election"]


async def test_failing_part_stops_all_parts_and_is_reported():
    async def fail():
        raise ValueError("it broke")

    recorder, stop = Recorder(), asyncio.Event()
    with pytest.raises(ValueError, match="it broke"):
        await asyncio.wait_for(run_elected(recorder, [recorder.part(), fail()], stop), 60)
    assert recorder.ended == ["part", "lease", "election"]
    assert stop.is_set()


async def test_cancellation_releases_lease():
    recorder = Recorder()
    running = asyncio.create_task(run_elected(recorder, [recorder.part()], asyncio.Event()))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert recorder.ended == ["part", "lease", "election"]
