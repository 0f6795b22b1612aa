"""Runner of the audit, which reads the evidence from the API server, the agents' ConfigMaps, and the extender."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from accelkit.audit.comparison import Audit, AuditEvidence, AuditFinding, AuditKind, audit
from accelkit.audit.kubelet_policies import read_policies
from accelkit.errors import ApiError, AssignmentError, ServiceError
from accelkit.inspection.inspection import Inspection, assemble, read_cluster
from accelkit.inspection.service_proxy import ProxiedExtender
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import PODS, build_config_maps_path
from accelkit.model.observed_allocations import ALLOCATIONS_KEY, Allocations, decode_allocations
from accelkit.model.pod import ConfigMap, Pod
from accelkit.vendors.counted_dialects import BoundPodReader

_POLL_SECONDS = 1.0

# A difference is identified by its node, card, pod and kind. The amounts in its message may change while it persists.
Difference = tuple[str, str, str, str]
Ledger = Callable[[], Awaitable[Inspection | ServiceError]]


async def audit_cluster(
    api: ApiClient,
    *,
    namespace: str,
    seconds: float,
    nodes: frozenset[str] = frozenset(),
    bare: bool = False,
    ledger: Ledger | None = None,
    ledger_optional: bool = False,
) -> Audit:
    """Return the audit of the nodes, with only the differences that persist for the given number of seconds.

    Args:
        api: an open client.
        namespace: the namespace in which accelkit runs.
        seconds: the time for which a difference must persist. A difference that lasts less than this time is a change
            in progress.
        nodes: names of nodes; empty for all nodes with cards.
        bare: whether nodes without cards are accepted in `nodes`.
        ledger: returns the ledger of the extender, or an error if it cannot be read; None to skip the ledger.
        ledger_optional: whether a ledger that cannot be read is reported as a note instead of a finding.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ServiceError: a named node has no cards.
    """
    deadline = time.monotonic() + seconds
    # On a busy cluster, some changes are always in progress. Therefore, report only the differences that occur in every
    # comparison.
    lasting: set[Difference] | None = None
    while True:
        evidence = await gather(api, namespace=namespace, ledger=await ledger() if ledger else None, nodes=nodes)
        if not bare and (unknown := sorted(nodes - {node.name for node in evidence.assigned.nodes})):
            raise ServiceError(
                f"cannot find nodes with cards named {', '.join(unknown)}",
                next_step="list the nodes with cards by `accelkit inspect`",
            )
        found = audit(evidence, ledger_optional=ledger_optional)
        keys = {name_difference(each) for each in found.findings}
        unread = {name_difference(each) for each in found.findings if each.kind == AuditKind.UNREADABLE_LEDGER}
        late = time.monotonic() >= deadline
        # Without the ledger, a comparison cannot confirm that differences persist. Repeat it if there is time.
        if not unread or late:
            lasting = unread | (keys if lasting is None else lasting & keys)
            if not lasting or late:
                return Audit([each for each in found.findings if name_difference(each) in lasting], found.notes)
        await asyncio.sleep(_POLL_SECONDS)


def name_difference(found: AuditFinding) -> Difference:
    """Return the key that identifies a difference across comparisons."""
    return found.node, found.card, found.pod, found.kind


async def query_if_possible(extender: ProxiedExtender) -> Inspection | ServiceError:
    """Return an extender's ledger. If this fails, return the error, so that the audit can compare the other data."""
    try:
        return await extender.query()
    except ServiceError as exc:
        return exc
    except ApiError as exc:
        return ServiceError(str(exc))


async def gather(
    api: ApiClient,
    *,
    namespace: str,
    ledger: Inspection | ServiceError | None = None,
    nodes: frozenset[str] = frozenset(),
) -> AuditEvidence:
    """Read the evidence for the named nodes, or for all nodes with cards if `nodes` is empty.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    # Read the allocations first, so that a pod that is assigned in the meantime is recognized as newer and not as a
    # difference.
    allocations = await read_allocations(api, namespace)
    inspection, dialects = await read_cluster(api)
    chosen = [node for node in inspection.nodes if not nodes or node.name in nodes]
    names = {node.name for node in chosen}
    reader = BoundPodReader(dialects)
    pods, _ = await list_all(api, PODS, Pod, trim=reader.trim)
    policies, problems = await read_policies(api, names)
    notes = [f"cannot read the configuration of the kubelet of {node}: {each}" for node, each in problems.items()]
    return AuditEvidence(
        assemble(chosen, inspection.unit_bytes),
        [found for pod in pods if pod.spec.node_name in names and not pod.terminal and (found := reader.read(pod))],
        {node.name: allocations.get(node.name) for node in chosen if node.state == "shared"},
        assemble([n for n in ledger.nodes if n.name in names], ledger.unit_bytes)
        if isinstance(ledger, Inspection)
        else ledger,
        policies,
        notes,
    )


async def read_allocations(api: ApiClient, namespace: str) -> dict[str, Allocations | AssignmentError]:
    """Return the allocations that each node agent publishes, or an error for an unreadable ConfigMap.

    ConfigMaps are selected only by name, because their labels may be damaged in the same way as their data.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    maps, _ = await list_all(api, build_config_maps_path(namespace), ConfigMap)
    return {entry.metadata.name: _read(entry) for entry in maps}


def _read(entry: ConfigMap) -> Allocations | AssignmentError:
    name, text = entry.metadata.name, (entry.data or {}).get(ALLOCATIONS_KEY)
    if text is None:
        return AssignmentError(f"ConfigMap {name} has no {ALLOCATIONS_KEY}")
    try:
        found = decode_allocations(text)
    except AssignmentError as exc:
        return exc
    if found.node != name:
        return AssignmentError(f"ConfigMap {name} contains the allocations of node {found.node}")
    return found
