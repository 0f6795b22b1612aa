"""Looks at the monitoring of a cluster: what has accelkit's services scraped, and what the agent of each node shows.

An agent is asked through the API server, which takes the right to `get` `pods/proxy`. Where the user lacks it, or no
answer comes in time, what an agent shows is unknown, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from accelkit.enablement.facts.objects import OwnPod
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.facts.watched import NotServed, Shown, Watched
from accelkit.enablement.stages.device_plugin import AGENT_COMPONENT
from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import build_collection_path, build_pod_path
from accelkit.kube.side_by_side import ask_all
from accelkit.model.keys import COMPONENT_LABEL, PART_OF_SELECTOR
from accelkit.model.object_meta import ObjectMeta

_MONITORING: Final = {"labelSelector": f"{PART_OF_SELECTOR},{COMPONENT_LABEL}=monitoring"}
_AGENTS: Final = {"labelSelector": f"{PART_OF_SELECTOR},{COMPONENT_LABEL}={AGENT_COMPONENT}"}
# Key of the ConfigMap of those who have no Prometheus operator; dashboards are ConfigMaps, too.
_SCRAPE: Final = "scrape.yml"
_PORT: Final = "metrics"
_SERIES: Final = "accelerator_"
_INFO: Final = "accelerator_info"
# A card has at most 20 series, and a container one for each card that it holds.
_MOST_BYTES: Final = 2 << 20
# The time to parse a series grows with the square of its length, and nobody else is heard meanwhile.
_MOST_OF_LINE: Final = 4096
_AT_ONCE: Final = 16
_FEWEST_REFUSALS: Final = 2
# Of all agents together.
ASK_SECONDS: Final = 30.0


class _Forbidden(Unread):
    """What the user may not ask for, of any agent."""


class _Named(msgspec.Struct):
    metadata: ObjectMeta


class _ConfigMap(msgspec.Struct):
    metadata: ObjectMeta
    data: dict[str, str] | None = None


async def look_at_monitoring(
    api: ApiClient, namespace: str, nodes: Collection[str] = (), *, seconds: float = ASK_SECONDS
) -> Watched | Unread | None:
    """Return what has metrics collected, and what agents show; None where monitoring is not installed.

    Args:
        api: an open client.
        namespace: where accelkit runs.
        nodes: names of those whose agents are asked; empty for all.
        seconds: for all agents together; of those that have not answered by then nobody knows.
    """
    try:
        by = await _find_scraper(api, namespace)
        if not by:
            return None
        pods, _ = await list_all(api, build_collection_path("v1", "pods", namespace), OwnPod, query=_AGENTS)
    except ApiError as exc:
        return Unread(str(exc))
    agents = {pod.spec.node_name: pod for pod in pods if pod.of_daemon_set and pod.current and pod.ready}
    asked = {node: pod for node, pod in agents.items() if not nodes or node in nodes}
    return Watched(by, await _ask_all(api, asked, seconds))


async def _find_scraper(api: ApiClient, namespace: str) -> str:
    """Return what has the services scraped, empty for nothing.

    Raises:
        ApiError: it cannot be read.
    """
    refused: ApiError | None = None
    try:
        path = build_collection_path("monitoring.coreos.com/v1", "podmonitors", namespace)
        monitors: Sequence[_Named] = (await list_all(api, path, _Named, query=_MONITORING))[0]
    except ApiError as exc:
        # Who has no right to list a kind is not told whether it is defined.
        refused, monitors = (None if exc.not_found else exc), ()
    if monitors:
        return f"PodMonitor {namespace}/{monitors[0].metadata.name}"
    path = build_collection_path("v1", "configmaps", namespace)
    maps, _ = await list_all(api, path, _ConfigMap, query=_MONITORING, trim=_trim)
    if found := [each for each in maps if _SCRAPE in (each.data or {})]:
        return f"ConfigMap {namespace}/{found[0].metadata.name}"
    if refused is not None:
        raise refused
    return ""


def _trim(found: _ConfigMap) -> None:
    found.data = dict.fromkeys(found.data or {}, "")


async def _ask_all(api: ApiClient, agents: dict[str, OwnPod], seconds: float) -> dict[str, Shown | NotServed | Unread]:
    shown: dict[str, Shown | NotServed | Unread] = {
        node: Unread(f"it did not answer in {seconds:g} s") for node in agents
    }
    refusals: list[_Forbidden] = []
    others = False

    async def ask(node: str) -> None:
        nonlocal others
        # Who may not ask several may ask none. One of them may say so himself, as what he answers comes as it is.
        general = len(refusals) >= _FEWEST_REFUSALS and not others
        found = shown[node] = refusals[0] if general else await _ask(api, agents[node])
        if isinstance(found, _Forbidden):
            refusals.append(found)
        else:
            others = True

    # What was not answered in time stands as such.
    await ask_all(agents, ask, at_once=_AT_ONCE, seconds=seconds)
    return shown


async def _ask(api: ApiClient, pod: OwnPod) -> Shown | NotServed | Unread:
    port = pod.find_port(_PORT)
    if port is None:
        return NotServed()
    path = f"{build_pod_path(pod.metadata.namespace, f'{pod.metadata.name}:{port}')}/proxy/metrics"
    try:
        answer = await api.get_page(path, query={}, max_bytes=_MOST_BYTES)
    except ApiError as exc:
        return _Forbidden(str(exc)) if exc.forbidden else Unread(str(exc))
    return read_shown(bytes(answer))


def read_shown(answer: bytes) -> Shown | Unread:
    """Return of which cards an agent shows series, from its answer in Prometheus' text format."""
    try:
        own = [line for line in answer.decode().splitlines() if line.startswith(_SERIES)]
        if any(len(line) > _MOST_OF_LINE for line in own):
            return Unread(f"it shows a series of more than {_MOST_OF_LINE} characters")
        families = list(text_string_to_metric_families("\n".join([*own, ""])))
    except (ValueError, KeyError, IndexError) as exc:
        return Unread(f"what it answers is not in Prometheus' format: {exc}")
    samples = [sample for family in families for sample in family.samples]
    return Shown(frozenset(each.labels.get("card", "") for each in samples if each.name == _INFO), len(samples))
