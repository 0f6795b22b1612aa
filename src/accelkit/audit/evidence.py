"""Gathers what the audit compares, from the API server and from what the node agents pass on, and runs it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from accelkit.audit.comparison import Audit, AuditEvidence, audit
from accelkit.audit.kubelet_policies import read_policies
from accelkit.errors import AssignmentError, ServiceError
from accelkit.inspection.inspection import Inspection, assemble, read_cluster
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import PODS, build_config_maps_path
from accelkit.model.observed_allocations import ALLOCATIONS_KEY, ALLOCATIONS_LABELS, Allocations, decode_allocations
from accelkit.model.pod import ConfigMap, Pod
from accelkit.vendors.counted_dialects import BoundPodReader

_AGAIN_SECONDS = 1.0

Ledger = Callable[[], Awaitable[Inspection | ServiceError]]


async def audit_cluster(
    api: ApiClient,
    *,
    namespace: str,
    seconds: float,
    nodes: frozenset[str] = frozenset(),
    ledger: Ledger | None = None,
) -> Audit:
    """Return the audit of the named nodes, else of all with cards, with the differences that last for so many seconds.

    Args:
        api: an open client.
        namespace: where accelkit runs.
        seconds: what is gone sooner was on its way, and is no difference.
        nodes: names.
        ledger: asks the extender, or says why it does not answer; None where it is not asked.

    Raises:
        ApiError: the API server refused or did not answer.
        ServiceError: a named node has no cards.
    """
    deadline = time.monotonic() + seconds
    while True:
        evidence = await gather(api, namespace=namespace, ledger=await ledger() if ledger else None, nodes=nodes)
        if unknown := sorted(nodes - {node.name for node in evidence.assigned.nodes}):
            raise ServiceError(
                f"there is no node with cards named {', '.join(unknown)}",
                next_step="`accelkit inspect` lists the nodes with cards",
            )
        found = audit(evidence)
        if not found.findings or time.monotonic() >= deadline:
            return found
        await asyncio.sleep(_AGAIN_SECONDS)


async def gather(
    api: ApiClient,
    *,
    namespace: str,
    ledger: Inspection | ServiceError | None = None,
    nodes: frozenset[str] = frozenset(),
) -> AuditEvidence:
    """Read all sides of the named nodes, else of all that have cards.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    # The kubelets first: what is assigned meanwhile is newer, and is not held against them.
    allocations = await read_allocations(api, namespace)
    inspection, dialects = await read_cluster(api)
    chosen = [node for node in inspection.nodes if not nodes or node.name in nodes]
    names = {node.name for node in chosen}
    reader = BoundPodReader(dialects)
    pods, _ = await list_all(api, PODS, Pod, trim=reader.trim)
    policies, problems = await read_policies(api, names)
    notes = [f"the kubelet of {node} does not tell its configuration: {each}" for node, each in problems.items()]
    return AuditEvidence(
        assemble(chosen, inspection.unit_bytes),
        [found for pod in pods if pod.spec.node_name in names and not pod.terminal and (found := reader.read(pod))],
        {
            node.name: allocations.get(node.name, AssignmentError("its agent passes nothing on"))
            for node in chosen
            if node.state == "shared"
        },
        assemble([n for n in ledger.nodes if n.name in names], ledger.unit_bytes)
        if isinstance(ledger, Inspection)
        else ledger,
        policies,
        notes,
    )


async def read_allocations(api: ApiClient, namespace: str) -> dict[str, Allocations | AssignmentError]:
    """Return what the agent of each node passes on of its kubelet, or why that cannot be read.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    selector = ",".join(f"{key}={value}" for key, value in ALLOCATIONS_LABELS.items())
    found: dict[str, Allocations | AssignmentError] = {}
    maps, _ = await list_all(api, build_config_maps_path(namespace), ConfigMap, query={"labelSelector": selector})
    for entry in maps:
        try:
            found[entry.metadata.name] = decode_allocations((entry.data or {}).get(ALLOCATIONS_KEY, ""))
        except AssignmentError as exc:
            found[entry.metadata.name] = exc
    return found
