"""Verification of a cluster, which covers the nodes, the monitoring, and other owners of the nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from accelkit.audit.evidence import audit_cluster, query_if_possible
from accelkit.enablement.facts.node_facts import Holders
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.facts.watched import Monitoring
from accelkit.enablement.ownership.evidence import NodeOwner, OwnerState
from accelkit.enablement.ownership.survey import survey_owners
from accelkit.enablement.reading import read_cluster
from accelkit.enablement.report.make import add_accounting, make_report
from accelkit.enablement.report.values import Accounting, StageReport
from accelkit.enablement.watching import read_monitoring
from accelkit.errors import ApiError
from accelkit.inspection.extender_client import EXTENDER_SERVICE, INSPECT_API_HINT
from accelkit.inspection.service_proxy import ProxiedExtender
from accelkit.kube.client import ApiClient
from accelkit.model.stage import Outcome

_AGAIN_SECONDS: Final = 1.0
# Within this time, the node agents complete corrections that are in progress.
SETTLE_SECONDS: Final = 20.0


async def verify_cluster(
    api: ApiClient, *, namespace: str, nodes: Collection[str] = (), seconds: float = 0.0, driver_mode: str = ""
) -> StageReport:
    """Return the report of the requested nodes, or of all nodes that are shared or have cards.

    Args:
        api: an open client.
        namespace: accelkit's namespace.
        nodes: names of the requested nodes; empty for all nodes that are shared or have cards.
        seconds: the minimum duration of a fault; shorter faults are treated as changes in progress.
        driver_mode: the mode in which accelkit installs drivers; empty if the mode is unknown.

    Raises:
        ApiError: the nodes cannot be listed, and no nodes were requested.
        ServiceError: no node is shared, and no nodes were requested.
    """
    stages, accounting = await asyncio.gather(
        verify_stages(
            api,
            namespace=namespace,
            nodes=nodes,
            seconds=seconds,
            monitoring=await read_monitoring(api, namespace, nodes),
            holders=await _find_holders(api),
            driver_mode=driver_mode,
        ),
        audit_accounting(api, namespace=namespace, nodes=nodes, seconds=max(seconds, SETTLE_SECONDS)),
    )
    return add_accounting(stages, accounting)


async def audit_accounting(
    api: ApiClient, *, namespace: str, nodes: Collection[str] = (), seconds: float
) -> Accounting:
    """Return the audit of the requested nodes or of all nodes with cards, or the reason why the audit failed."""
    ledger = partial(query_if_possible, ProxiedExtender(api, namespace, EXTENDER_SERVICE, instead=INSPECT_API_HINT))
    try:
        found = await audit_cluster(
            api,
            namespace=namespace,
            seconds=seconds,
            nodes=frozenset(nodes),
            bare=True,
            ledger=ledger,
            ledger_optional=True,
        )
    except ApiError as exc:
        return Accounting(Outcome.UNKNOWN, problem=f"no comparison was possible: {exc}")
    outcome = Outcome.FAIL if found.findings else Outcome.PASS
    return Accounting(outcome, tuple(found.findings), tuple(found.notes))


async def verify_stages(
    api: ApiClient,
    *,
    namespace: str,
    nodes: Collection[str] = (),
    seconds: float = 0.0,
    monitoring: Monitoring | Unread | None = None,
    holders: Mapping[str, Holders] | None = None,
    driver_mode: str = "",
) -> StageReport:
    """Return the report of the requested nodes, or of all nodes that are shared or have cards.

    Args:
        api: an open client.
        namespace: accelkit's namespace.
        nodes: names of the requested nodes; empty for all nodes that are shared or have cards.
        seconds: the minimum duration of a fault; shorter faults are treated as changes in progress.
        monitoring: the monitoring configuration of the cluster and the metrics of the agents; None if monitoring is not
            installed.
        holders: the other owners of each node.
        driver_mode: the mode in which accelkit installs drivers; empty if the mode is unknown.

    Raises:
        ApiError: the nodes cannot be listed, and no nodes were requested.
        ServiceError: no node is shared, and no nodes were requested.
    """
    deadline = time.monotonic() + seconds
    while True:
        read = await read_cluster(api, namespace, frozenset(nodes))
        facts = replace(read, monitoring=monitoring, holders=holders or {}, driver_mode=driver_mode)
        report = make_report(facts, server=api.server, context=api.context, now=time.time())
        if report.outcome is not Outcome.FAIL or time.monotonic() >= deadline:
            return report
        await asyncio.sleep(_AGAIN_SECONDS)


async def _find_holders(api: ApiClient) -> Mapping[str, Holders]:
    try:
        survey = await survey_owners(api)
    except ApiError:
        # Owners are best effort: without access, the report omits the owners.
        return {}
    return {node: name_holders(owners) for node, owners in survey.owners.items()}


def name_holders(owners: Iterable[NodeOwner]) -> Holders:
    """Return the titles of the current owners of a node's cards and driver."""
    current = [each for each in owners if each.state is OwnerState.OWNER]
    return Holders(
        cards=", ".join(dict.fromkeys(each.title for each in current)),
        driver=", ".join(dict.fromkeys(each.title for each in current if each.drives)),
    )
