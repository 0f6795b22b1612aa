import asyncio

import pytest
from click.testing import CliRunner

from accelkit.cli import main
from accelkit.errors import DevicePluginError
from accelkit.kube.side_by_side import run_until


class Loop:
    """Loop that runs until it is cancelled, and records the cancellation."""

    def __init__(self):
        self.running = asyncio.Event()
        self.cancelled = False

    async def run(self):
        self.running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_stop_signal_ends_all_loops_without_error():
    loops, stop = [Loop(), Loop()], asyncio.Event()

    async def stopping():
        for each in loops:
            await each.running.wait()
        stop.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(60):
        await run_until(stop, [*(each.run() for each in loops), stopping()])
    assert [each.cancelled for each in loops] == [True, True]


async def test_error_of_one_loop_stops_other_loops_and_is_raised():
    other = Loop()

    async def failing():
        await other.running.wait()
        raise DevicePluginError("too many devices")

    async with asyncio.timeout(60):
        with pytest.raises(DevicePluginError, match="too many devices"):
            await run_until(asyncio.Event(), [other.run(), failing()])
    assert other.cancelled


@pytest.mark.parametrize("folder", ["/dev/shm", "/dev/shm/"])
def test_host_shared_memory_is_refused_as_mps_shared_memory(folder):
    done = CliRunner().invoke(main, ["node-agent", "--node-name", "n", "--mps-shared-memory", folder])
    assert done.exit_code == 1
    assert "cannot mount the host's /dev/shm into pods" in done.output
