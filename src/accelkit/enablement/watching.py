"""Reader of a cluster's monitoring configuration: the scraper of accelkit's Services, and each agent's metrics.

The agents are read through the API server, which requires permission to `get` `pods/proxy`. Without this permission or
a timely response, only the agents' metrics are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from accelkit.enablement.facts.objects import OwnPod
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.facts.watched import AgentMetrics, Monitoring, NotServed
from accelkit.enablement.stages.device_plugin import AGENT_COMPONENT
from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import build_collection_path, build_pod_path
from accelkit.kube.side_by_side import request_all
from accelkit.kube.views.metadata import PartialObject
from accelkit.model.keys import COMPONENT_LABEL, PART_OF_SELECTOR
from accelkit.model.pod import ConfigMap

_MONITORING: Final = {"labelSelector": f"{PART_OF_SELECTOR},{COMPONENT_LABEL}=monitoring"}
_AGENTS: Final = {"labelSelector": f"{PART_OF_SELECTOR},{COMPONENT_LABEL}={AGENT_COMPONENT}"}
# The key in the ConfigMap for clusters without the Prometheus operator. Dashboards are also ConfigMaps, but do not have
# this key.
_SCRAPE: Final = "scrape.yml"
_PORT: Final = "metrics"
_SERIES: Final = "accelerator_"
_INFO: Final = "accelerator_info"
# Each card has at most 20 series, and each container has one series for each card that it uses.
_MOST_BYTES: Final = 2 << 20
# The time to parse a series grows quadratically with its length and blocks the event loop.
_MOST_OF_LINE: Final = 4096
_AT_ONCE: Final = 16
_FEWEST_REFUSALS: Final = 2
# The time limit for all agents together.
REQUEST_SECONDS: Final = 30.0


class _Forbidden(Unread):
    """The API server denied a request because the user lacks permission."""


async def read_monitoring(
    api: ApiClient, namespace: str, nodes: Collection[str] = (), *, seconds: float = REQUEST_SECONDS
) -> Monitoring | Unread | None:
    """Return the monitoring configuration and the agents' metrics; None if monitoring is not installed.

    Args:
        api: an open client.
        namespace: accelkit's namespace.
        nodes: names of the nodes whose agents are read; empty for all nodes.
        seconds: the time limit for all agents together; the metrics of agents that do not respond within this time are
            unknown.
    """
    try:
        by = await _find_scraper(api, namespace)
        if not by:
            return None
        pods, _ = await list_all(api, build_collection_path("v1", "pods", namespace), OwnPod, query=_AGENTS)
    except ApiError as exc:
        return Unread(str(exc))
    agents = {pod.spec.node_name: pod for pod in pods if pod.of_daemon_set and pod.current and pod.ready}
    selected = {node: pod for node, pod in agents.items() if not nodes or node in nodes}
    return Monitoring(by, await _read_all_metrics(api, selected, seconds))


async def _find_scraper(api: ApiClient, namespace: str) -> str:
    """Return the object that configures Prometheus to scrape the Services; empty if no such object exists.

    Raises:
        ApiError: the objects cannot be read.
    """
    refused: ApiError | None = None
    try:
        path = build_collection_path("monitoring.coreos.com/v1", "podmonitors", namespace)
        monitors: Sequence[PartialObject] = (await list_all(api, path, PartialObject, query=_MONITORING))[0]
    except ApiError as exc:
        # Without permission to list a kind, the API server does not report whether the kind is defined.
        refused, monitors = (None if exc.not_found else exc), ()
    if monitors:
        return f"PodMonitor {namespace}/{monitors[0].metadata.name}"
    path = build_collection_path("v1", "configmaps", namespace)
    maps, _ = await list_all(api, path, ConfigMap, query=_MONITORING, trim=_trim)
    if found := [each for each in maps if _SCRAPE in (each.data or {})]:
        return f"ConfigMap {namespace}/{found[0].metadata.name}"
    if refused is not None:
        raise refused
    return ""


def _trim(found: ConfigMap) -> None:
    found.data = dict.fromkeys(found.data or {}, "")


async def _read_all_metrics(
    api: ApiClient, agents: dict[str, OwnPod], seconds: float
) -> dict[str, AgentMetrics | NotServed | Unread]:
    results: dict[str, AgentMetrics | NotServed | Unread] = {
        node: Unread(f"it did not respond within {seconds:g} s") for node in agents
    }
    refusals: list[_Forbidden] = []
    others = False

    async def read(node: str) -> None:
        nonlocal others
        # After several denials, the permission is considered missing for all agents. A single denial is not sufficient,
        # because an agent can forge it.
        general = len(refusals) >= _FEWEST_REFUSALS and not others
        found = results[node] = refusals[0] if general else await _read_metrics(api, agents[node])
        if isinstance(found, _Forbidden):
            refusals.append(found)
        else:
            others = True

    # Each entry has its initial value until the agent responds.
    await request_all(agents, read, at_once=_AT_ONCE, seconds=seconds)
    return results


async def _read_metrics(api: ApiClient, pod: OwnPod) -> AgentMetrics | NotServed | Unread:
    port = pod.find_port(_PORT)
    if port is None:
        return NotServed()
    path = f"{build_pod_path(pod.metadata.namespace, f'{pod.metadata.name}:{port}')}/proxy/metrics"
    try:
        answer = await api.get_page(path, query={}, max_bytes=_MOST_BYTES)
    except ApiError as exc:
        return _Forbidden(str(exc)) if exc.forbidden else Unread(str(exc))
    return parse_agent_metrics(bytes(answer))


def parse_agent_metrics(answer: bytes) -> AgentMetrics | Unread:
    """Return the cards for which an agent serves series, from a response in the Prometheus text format."""
    try:
        own = [line for line in answer.decode().splitlines() if line.startswith(_SERIES)]
        if any(len(line) > _MOST_OF_LINE for line in own):
            return Unread(f"it serves a series with more than {_MOST_OF_LINE} characters")
        families = list(text_string_to_metric_families("\n".join([*own, ""])))
    except (ValueError, KeyError, IndexError) as exc:
        return Unread(f"its response is not in the Prometheus text format: {exc}")
    samples = [sample for family in families for sample in family.samples]
    return AgentMetrics(frozenset(each.labels.get("card", "") for each in samples if each.name == _INFO), len(samples))
