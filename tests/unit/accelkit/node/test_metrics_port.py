import asyncio

import aiohttp
import pytest
from ports import free_port

from accelkit.errors import ConfigurationError
from accelkit.node.metrics import Metrics


async def ask(port, path):
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, answer.headers["Content-Type"], await answer.text()


async def test_only_metrics_path_is_served_until_agent_stops():
    metrics, stop, port = Metrics(), asyncio.Event(), free_port()
    metrics.serve(port, stop)
    metrics.build_allocation_counter("accelkit.io/memory")("granted")
    status, content_type, text = await ask(port, "/metrics")
    assert (status, content_type.partition(";")[0]) == (200, "text/plain")
    assert 'accelkit_allocations_total{resource="accelkit.io/memory",result="granted"} 1.0' in text
    assert (await ask(port, "/"))[0] == 404
    stop.set()
    async with asyncio.timeout(60):
        await metrics._serving
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(port, "/metrics")


async def test_port_0_disables_metrics_and_port_in_use_is_an_error():
    stop, port = asyncio.Event(), free_port()
    Metrics().serve(0, stop)
    first = Metrics()
    first.serve(port, stop)
    with pytest.raises(ConfigurationError, match=f"cannot serve metrics on port {port}: .*in use") as raised:
        Metrics().serve(port, stop)
    assert "--metrics-port" in raised.value.next_step
    stop.set()
    await first._serving
