"""Readiness as a container's HTTP endpoint tells it."""

import asyncio
from types import SimpleNamespace

import pytest
from aiohttp import web
from ports import free_port
from simulated_pods import DEADLINE
from support.http_servers import serve_http

from accelkit.sandbox.kubelet.pods import probes
from accelkit.sandbox.kubelet.pods.probes import follow_readiness
from accelkit.sandbox.kubelet.wire import Container, HttpGet, Probe


class Following:
    """Follows a probe without its pauses: `changes` are the numbers of the probes after which readiness changed."""

    def __init__(self, monkeypatch, statuses=()):
        self.statuses = list(statuses)
        self.probes = 0
        self.changes = []
        self.paused = []
        self.done = asyncio.Event()
        # Its own alone: servers and clients pause too.
        monkeypatch.setattr(probes, "asyncio", SimpleNamespace(sleep=self._pause))

    async def follow(self, port, **probe):
        http_get = HttpGet(port=port, path="/ready")
        task = asyncio.create_task(
            follow_readiness(Container(name="c"), Probe(http_get=http_get, **probe), self._change)
        )
        await asyncio.wait_for(self.done.wait(), DEADLINE)
        task.cancel()
        await asyncio.wait({task})

    async def answer(self, _request):
        self.probes += 1
        return web.Response(status=self.statuses[self.probes - 1], headers={"Location": "/elsewhere"})

    def _change(self, ready):
        self.changes.append((self.probes, ready))

    async def _pause(self, seconds):
        self.paused.append(seconds)
        if len(self.paused) > len(self.statuses):
            self.done.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("thresholds", "statuses", "changes"),
    [
        ({}, [200], [(1, True)]),
        ({}, [503, 200, 500, 500, 500], [(2, True), (5, False)]),
        ({}, [200, 500, 500, 200, 500, 500, 500], [(1, True), (7, False)]),
        ({"success_threshold": 2, "failure_threshold": 1}, [200, 500, 200, 200, 500], [(4, True), (5, False)]),
        ({"failure_threshold": 1}, [302, 404, 399, 400], [(1, True), (2, False), (3, True), (4, False)]),
    ],
)
async def test_readiness_changes_after_threshold_number_of_results(monkeypatch, thresholds, statuses, changes):
    following = Following(monkeypatch, statuses)
    async with serve_http(following.answer) as url:
        await following.follow(url.port, **thresholds)
    assert following.changes == changes


async def test_probe_period_is_applied_and_at_least_one_second(monkeypatch):
    following = Following(monkeypatch, [200, 200])
    async with serve_http(following.answer) as url:
        await following.follow(url.port, initial_delay_seconds=5)
    assert following.paused == [5, 10, 10]
    following = Following(monkeypatch, [200, 200])
    async with serve_http(following.answer) as url:
        await following.follow(url.port, period_seconds=0)
    assert following.paused == [0, 1, 1]


async def test_unreachable_probe_target_is_not_ready(monkeypatch):
    following = Following(monkeypatch, [None] * 3)
    await following.follow(free_port())
    assert following.changes == []
