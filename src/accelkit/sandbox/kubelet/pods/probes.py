"""Readiness probes, which periodically send HTTP requests to a container and report changes in its readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp

from accelkit.errors import SandboxError
from accelkit.sandbox.kubelet.wire import Container, HttpGet, Probe

__all__ = ["follow_readiness"]

_DEFAULT_HOST = "127.0.0.1"
_GOOD_STATUS = range(200, 400)


async def follow_readiness(container: Container, probe: Probe, on_ready: Callable[[bool], None]) -> None:
    """Call `on_ready` after each change in readiness, until cancelled. Initially, the container is not ready."""
    if probe.http_get is None:
        # All other kinds of probes are simulated, and always succeed.
        on_ready(True)  # noqa: FBT003 - the callback has one parameter
        return
    url = build_probe_url(container, probe.http_get)
    timeout = aiohttp.ClientTimeout(total=max(1, probe.timeout_seconds))
    ready, streak, last = False, 0, False
    await asyncio.sleep(probe.initial_delay_seconds)
    # Like a kubelet, do not verify certificates, and use a new connection for each probe.
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        while True:
            passed = await _passes(session, url)
            streak = streak + 1 if passed == last else 1
            last = passed
            if passed != ready and streak >= (probe.success_threshold if passed else probe.failure_threshold):
                ready = passed
                on_ready(ready)
            await asyncio.sleep(max(1, probe.period_seconds))


def build_probe_url(container: Container, probe: HttpGet) -> str:
    """Return the URL of a probe.

    Raises:
        SandboxError: the container does not have a port with the name in the probe.
    """
    port = probe.port
    if isinstance(port, str) and not port.isdecimal():
        numbers = [each.container_port for each in container.ports if each.name == port]
        if not numbers:
            raise SandboxError(f"container {container.name} has no port named {port}")
        port = numbers[0]
    path = probe.path if probe.path.startswith("/") else "/" + probe.path
    return f"{probe.scheme.lower()}://{probe.host or _DEFAULT_HOST}:{port}{path}"


async def _passes(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, allow_redirects=False) as response:
            return response.status in _GOOD_STATUS
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
