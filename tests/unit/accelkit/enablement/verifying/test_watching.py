"""What is found of a cluster's monitoring, and of who else owns its nodes; what is refused is not known."""

import asyncio
import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from accelkit.enablement.facts.node_facts import Holders
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.facts.watched import AgentMetrics, Monitoring, NotServed
from accelkit.enablement.ownership.evidence import NodeOwner, OwnerState
from accelkit.enablement.ownership.owners import HeldPart
from accelkit.enablement.verifying import name_holders, verify_cluster
from accelkit.enablement.watching import parse_agent_metrics, read_monitoring
from accelkit.errors import ApiError
from accelkit.model.card import Card
from accelkit.model.stage import Stage
from accelkit.node.card_metrics.collector import CardCollector
from accelkit.node.card_metrics.holders import Holdings

MONITORS = "/apis/monitoring.coreos.com/v1/namespaces/accelkit/podmonitors"
CONFIG_MAPS = "/api/v1/namespaces/accelkit/configmaps"
OWN = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "monitoring"}


def metrics(*cards):
    """What the agent of a node with these cards answers."""
    registry = CollectorRegistry()
    shown = [Card(card, "nvidia", "H100", 1) for card in cards]
    registry.register(
        CardCollector(
            "n",
            cards=lambda: shown,
            readings=dict,
            holdings=lambda: Holdings({}, {}),
            last_xids={},
        )
    )
    return generate_latest(registry)


def install(api, *, operator=True, **data):
    metadata = {"name": "accelkit-monitoring", "namespace": "accelkit", "labels": OWN}
    api.store(MONITORS if operator else CONFIG_MAPS, {"metadata": metadata, "data": data})


def serve_metrics(cluster, answer=None):
    """The cluster's API server, with an agent on each node that serves metrics."""
    for node in cluster.nodes.values():
        node.pods[0]["spec"]["containers"] = [{"ports": [{"name": "metrics", "containerPort": 32765}]}]
    api = cluster.serve()
    for name, node in cluster.nodes.items():
        path = f"/api/v1/namespaces/accelkit/pods/node-agent-{name}:32765/proxy/metrics"
        api.documents[path] = metrics(*(card.id for card in node.cards)) if answer is None else answer
    return api


async def test_agents_are_not_queried_without_monitoring(cluster):
    api = serve_metrics(cluster)
    assert await read_monitoring(api, "accelkit") is None
    install(api, operator=False, **{"board.json": "{}"})
    assert await read_monitoring(api, "accelkit") is None
    assert not any("proxy" in request.path for request in api.requests)


@pytest.mark.parametrize("operator", [True, False])
async def test_each_agent_is_queried_once_if_scraping_is_configured(enabled, operator):
    api = serve_metrics(enabled("a", "b"))
    install(api, operator=operator, **{"scrape.yml": "scrape_configs: []"})
    found = await read_monitoring(api, "accelkit")
    kind = "PodMonitor" if operator else "ConfigMap"
    assert found.by == f"{kind} accelkit/accelkit-monitoring"
    assert {node: shown.cards for node, shown in found.agents.items()} == {
        name: frozenset({f"GPU-{name}-0", f"GPU-{name}-1"}) for name in ("a", "b")
    }
    assert sum("proxy" in request.path for request in api.requests) == 2


async def test_report_states_that_nodes_are_scraped(cluster):
    api = serve_metrics(cluster)
    install(api)
    cell = (await verify_cluster(api, namespace="accelkit")).nodes[0].stages[list(Stage).index(Stage.MONITORING)]
    assert cell.outcome == "pass"
    assert cell.evidence.startswith("PodMonitor accelkit/accelkit-monitoring configures scraping")


async def test_only_agents_of_named_nodes_are_queried(enabled):
    api = serve_metrics(enabled("a", "b"))
    install(api)
    assert set((await read_monitoring(api, "accelkit", ["b"])).agents) == {"b"}


async def test_agent_without_metrics_port_is_reported_as_not_served(cluster):
    api = cluster.serve()
    install(api)
    assert (await read_monitoring(api, "accelkit")).agents == {"n": NotServed()}


async def test_forbidden_proxy_access_stops_further_queries_and_is_reported(enabled):
    names = [f"node-{number}" for number in range(40)]
    api = serve_metrics(enabled(*names))
    install(api)
    api.fail(ApiError("pods/proxy is forbidden", status=403), path="/proxy/", times=None)
    found = await read_monitoring(api, "accelkit")
    assert {shown.why for shown in found.agents.values()} == {"pods/proxy is forbidden"}
    assert sum("/proxy/" in request.path for request in api.requests) <= 16


async def test_forbidden_response_of_one_agent_does_not_affect_other_agents(enabled):
    names = [f"node-{number:02}" for number in range(40)]
    api = serve_metrics(enabled(*names))
    install(api)
    api.fail(ApiError("forbidden", status=403), path="node-agent-node-00:", times=None)
    found = await read_monitoring(api, "accelkit")
    assert found.agents["node-00"].why == "forbidden"
    assert [name for name in names[1:] if not isinstance(found.agents[name], AgentMetrics)] == []


async def test_unresponsive_agent_does_not_delay_other_agents(enabled):
    api = serve_metrics(enabled("a", "b"))
    install(api)

    async def hang(request):
        if "node-agent-a:" in request.path:
            await asyncio.Event().wait()

    api.before.append(hang)
    found = await read_monitoring(api, "accelkit", seconds=0.05)
    assert found.agents["a"] == Unread("it did not respond within 0.05 s")
    assert isinstance(found.agents["b"], AgentMetrics)


@pytest.mark.parametrize("status", [0, 403, 503])
async def test_monitoring_is_unknown_if_lists_are_refused(cluster, status):
    api = serve_metrics(cluster)
    api.fail(ApiError("it is not to be had", status=status), path="podmonitors", times=None)
    assert await read_monitoring(api, "accelkit") == Unread("it is not to be had")
    install(api, operator=False, **{"scrape.yml": "scrape_configs: []"})
    assert isinstance(await read_monitoring(api, "accelkit"), Monitoring)


def test_invalid_metrics_are_unreadable():
    assert isinstance(parse_agent_metrics(b"accelerator_info{card= 1"), Unread)
    assert isinstance(parse_agent_metrics(b"\xff\xfe"), Unread)
    assert parse_agent_metrics(b"<html>") == AgentMetrics(frozenset(), 0)
    assert parse_agent_metrics(metrics("a", "b")).cards == {"a", "b"}


def test_series_with_excessive_labels_are_rejected_quickly():
    labels = ",".join(f'l{number}="x"' for number in range(150_000))
    began_at = time.process_time()
    assert isinstance(parse_agent_metrics(f"accelerator_info{{{labels}}} 1\n".encode()), Unread)
    assert time.process_time() - began_at < 5


def owner(title, *, drives=False, state=OwnerState.OWNER):
    return NodeOwner(title, title, "nvidia", HeldPart.CARDS, state, (), (), "", drives)


def test_current_owners_are_named():
    found = name_holders([owner("op", drives=True), owner("HAMi"), owner("old", state=OwnerState.LEFT_OVER)])
    assert found == Holders(cards="op, HAMi", driver="op")
    assert name_holders([]) == Holders()


async def test_unreadable_owners_do_not_prevent_report(cluster):
    api = cluster.serve()
    api.fail(ApiError("it is forbidden", status=403), path="daemonsets", times=None)
    api.fail(ApiError("no answer"), path="resourceslices", times=None)
    assert (await verify_cluster(api, namespace="accelkit")).exit_code == 0
