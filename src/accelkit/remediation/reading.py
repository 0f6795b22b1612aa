"""Reader of a node, its pods and all other data that determines the next step.

The reader queries the API server each time instead of using a watch, because few nodes are under remediation, and the
actions are difficult to revert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from accelkit.errors import ApiError, AssignmentError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE, list_all
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import (
    PODS,
    build_collection_path,
    build_config_maps_path,
    build_node_path,
    build_object_path,
)
from accelkit.kube.views.metadata import Condition
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.inventory import Inventory, read_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION, MIRROR_ANNOTATION, NAME_LABEL
from accelkit.model.observed_allocations import ALLOCATIONS_KEY, decode_allocations
from accelkit.model.pod import ConfigMap, Node, Pod, PodRef
from accelkit.remediation.deciding.record import NodeRecord
from accelkit.remediation.deciding.views import JobState, PodWithCard, RemediationNode
from accelkit.remediation.nodes import NodeObject, view_node
from accelkit.vendors.dialect import Dialect

_JOB_ENDS: Final = {"Complete": JobState.SUCCEEDED, "Failed": JobState.FAILED}


class _JobStatus(msgspec.Struct):
    conditions: list[Condition] | None = None


class _Job(msgspec.Struct):
    status: _JobStatus = msgspec.field(default_factory=_JobStatus)


class NodeReader:
    """Reader of nodes.

    Args:
        api: an open client.
        namespace: accelkit's namespace, in which the node agents and the Jobs run.
        agent: the value of the label that identifies the pods of node agents.
        dialects: the dialects whose resource names may be used by pods.
        reads_jobs: whether to read Jobs.
    """

    def __init__(
        self, api: ApiClient, namespace: str, agent: str, dialects: Sequence[Dialect], *, reads_jobs: bool
    ) -> None:
        self._api, self._namespace, self._agent = api, namespace, agent
        self._dialects, self._reads_jobs = dialects, reads_jobs

    async def read(self, name: str) -> RemediationNode | None:
        """Return the current state of a node; None if the node does not exist.

        Raises:
            ApiError: the API server rejected the request or did not respond, or the Node object cannot be decoded.
        """
        answer = await get_if_present(self._api, build_node_path(name))
        if answer is None:
            return None
        try:
            found, node = msgspec.json.decode(answer, type=NodeObject), msgspec.json.decode(answer, type=Node)
        except UNREADABLE as exc:
            raise ApiError(f"cannot decode node {name}: {exc}") from exc
        view, inventory = view_node(found), read_inventory(found.find_annotation(INVENTORY_ANNOTATION))
        pods, ledger = await self._list_pods(node)
        holders, unplaced = _list_holders(ledger, name, pods)
        return replace(
            view,
            holders=holders,
            unplaced=unplaced,
            observed=await self._read_observed(name, inventory),
            watched=any(map(self._is_agent, pods.values())),
            jobs=await self._read_jobs(view.record),
        )

    async def _list_pods(self, node: Node) -> tuple[Mapping[str, Pod], Ledger]:
        """Return a node's pods by UID, and a ledger of these pods, which interprets the pods as the extender does."""
        unreadable: list[bytes] = []
        query = {"fieldSelector": f"spec.nodeName={node.metadata.name}"}
        found, _ = await list_all(
            self._api, PODS, Pod, query=query, on_unreadable=lambda text, _error: unreadable.append(text)
        )
        ledger = Ledger()
        feed = LedgerFeed(ledger, self._dialects)
        feed.replace_nodes([node])
        feed.replace_pods(found)
        for text in unreadable:
            feed.take_unreadable_pod("ADDED", text)
        return {pod.metadata.uid: pod for pod in found}, ledger

    def _is_agent(self, pod: Pod) -> bool:
        """Return whether a pod belongs to the node agent and is ready."""
        meta = pod.metadata
        ours = meta.namespace == self._namespace and (meta.labels or {}).get(NAME_LABEL) == self._agent
        if not ours or meta.deletion_timestamp is not None:
            return False
        return any((each.type, each.status) == ("Ready", "True") for each in pod.status.conditions or ())

    async def _read_observed(self, name: str, inventory: Inventory | None) -> frozenset[str] | None:
        """Return the cards that are in use according to the node agent; None if the agent does not report them."""
        answer = await get_if_present(self._api, build_object_path(build_config_maps_path(self._namespace), name))
        if answer is None or inventory is None:
            return None
        try:
            data = msgspec.json.decode(answer, type=ConfigMap).data or {}
            published = decode_allocations(data.get(ALLOCATIONS_KEY, ""))
        except (AssignmentError, *UNREADABLE):
            return None
        if published.left_out or published.node != name:
            return None
        devices = [each for pod in published.pods for each in pod.containers.values()]
        held = {card for each in devices for card in (*each.memory, *each.whole)}
        held |= {each.card for each in published.processes or ()}
        return frozenset(held | {each.card for each in inventory.uncounted})

    async def _read_jobs(self, record: NodeRecord | None) -> dict[str, JobState]:
        names = [each.job for each in record.cards.values() if each.job] if record is not None else []
        jobs: dict[str, JobState] = {}
        for name in names if self._reads_jobs else ():
            path = build_object_path(build_collection_path("batch/v1", "jobs", self._namespace), name)
            answer = await get_if_present(self._api, path)
            if answer is not None:
                jobs[name] = _read_state(answer)
        return jobs


def _list_holders(
    ledger: Ledger, node: str, pods: Mapping[str, Pod]
) -> tuple[dict[str, tuple[PodWithCard, ...]], tuple[PodWithCard, ...]]:
    entry = ledger.find_node(node)
    holders: dict[str, tuple[PodWithCard, ...]] = {}
    if entry is None:
        return holders, ()
    for uid, holding in entry.holdings.items():
        shares = (share for each in holding.assignment.containers.values() for share in each)
        for card in sorted({share.card for share in shares}):
            holders[card] = (*holders.get(card, ()), _make_holder(holding.pod, pods.get(uid)))
    return holders, tuple(_make_holder(each.pod, pods.get(uid)) for uid, each in entry.unassigned.items())


def _make_holder(ref: PodRef, pod: Pod | None) -> PodWithCard:
    if pod is None:
        return PodWithCard(ref, stays=True)
    static = pod.find_annotation(MIRROR_ANNOTATION) is not None
    return PodWithCard(ref, pod.spec.priority or 0, stays=static or pod.metadata.deletion_timestamp is not None)


def _read_state(answer: bytes) -> JobState:
    try:
        conditions = msgspec.json.decode(answer, type=_Job).status.conditions or []
    except UNREADABLE:
        return JobState.RUNNING
    ended = (_JOB_ENDS.get(each.type) for each in conditions if each.status == "True")
    return next((state for state in ended if state is not None), JobState.RUNNING)
