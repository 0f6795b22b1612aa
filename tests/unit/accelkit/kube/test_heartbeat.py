import asyncio

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kube import heartbeat as module
from accelkit.kube.heartbeat import Heartbeat


@pytest.mark.parametrize(
    ("fault", "silent"),
    [
        (None, 0.0),
        (ApiError("forbidden", status=403), 0.0),
        (ApiError("gone"), 8.0),
        (ApiError("etcd", status=500), 8.0),
    ],
)
async def test_silence_is_time_without_successful_or_client_error_response(monkeypatch, fault, silent):
    now = [100.0]
    monkeypatch.setattr(module, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now[0])}))
    api = FakeApi()
    if fault:
        api.fail(fault, "GET", "/readyz")
    heartbeat = Heartbeat(api)
    now[0] += 10
    task = asyncio.create_task(heartbeat.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    assert heartbeat.measure_silence_seconds() == silent
