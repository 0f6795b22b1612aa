import asyncio
import os

import pytest

from accelkit.stop_signals import STOP_SIGNALS, awaiting_stop_signals, on_stop_signal


@pytest.mark.parametrize("number", STOP_SIGNALS)
async def test_each_stop_signal_calls_registered_function(number):
    stop = asyncio.Event()
    on_stop_signal(stop.set)
    try:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.wait(), 60)
    finally:
        for each in STOP_SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(each)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_signal_before_wait_ends_wait(number):
    with awaiting_stop_signals() as wait:
        assert not wait(0.0)
        os.kill(os.getpid(), number)
        assert wait(60.0)
