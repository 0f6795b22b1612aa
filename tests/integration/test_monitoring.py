"""A real Prometheus scrapes the sandbox's extender and an agent's cards, and answers each query of the dashboards."""

from __future__ import annotations

import asyncio
import shutil

import pytest
from conftest import Cluster
from ports import free_port
from real_prometheus import list_queries, run_prometheus

from accelkit.model.card import Card
from accelkit.node.card_metrics.collector import CardCollector
from accelkit.node.card_metrics.holders import CardHolder, Holdings
from accelkit.node.card_metrics.reading import CardReading
from accelkit.node.metrics import Metrics

PROMETHEUS = shutil.which("prometheus")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed"),
]
CARD = Card("GPU-a", "nvidia", "NVIDIA H200", 2**34, bdf="0000:3b:00.0")
READING = CardReading(0.4, 2**30, 2**34, 61, 400, 9000, 1.9e9, 2.6e9, 0, 0)
# What a sandbox of simulated cards, without quotas, stages, caches, certificates and faults has nothing to tell of.
EMPTY = {
    "accelkit-cards": {"Cards to repair"},
    "accelkit-pods": {"Memory beyond the share", "Quotas"},
    "accelkit-cluster": {
        *("Stages", "Failed stages", "Kernel caches", "Time until certificates expire"),
        "Pods without a readable assignment",
    },
}


async def serve_agent(stop: asyncio.Event) -> int:
    """Serve what a node agent shows of a card; return the port. The sandbox's own agents share this machine's ports."""
    metrics, port = Metrics(), free_port()
    holder = CardHolder("d", "one", "c", CARD.id)
    metrics.registry.register(
        CardCollector(
            "n",
            cards=lambda: [CARD],
            readings=lambda: {CARD.id: READING},
            holdings=lambda: Holdings({holder: 2**30}, {CARD.id: holder}),
            last_xids={},
        )
    )
    metrics.serve(port, stop)
    return port


async def test_each_dashboard_query_returns_data(cluster: Cluster, tmp_path):
    await cluster.create_pod("holder", memory=2)
    await cluster.running("holder")
    stop = asyncio.Event()
    targets = {
        "node-agent": [f"127.0.0.1:{await serve_agent(stop)}"],
        "extender": [f"127.0.0.1:{cluster.sandbox.port}"],
    }
    async with run_prometheus(PROMETHEUS, tmp_path, targets) as prometheus:
        await prometheus.wait("accelerator_info")
        await prometheus.wait("sum(accelkit_pods) > 0")
        for query in list_queries(period="10s"):
            if query.title in EMPTY[query.board]:
                await prometheus.ask(query.expression)
            else:
                assert await prometheus.wait(query.expression), query
        assert await prometheus.wait("accelerator_gpu_utilization == 40")
        firing = await prometheus.ask('ALERTS{alertstate="firing"}')
        assert [each["metric"]["alertname"] for each in firing] == []
    stop.set()
