"""Node checks that run in a pod on each node. The pods are created, watched, evaluated, and always deleted.

Nodes are checked in parallel, up to a limit. All checks share one list of nodes before and one after the checks, one
watch of pods, and the data that is read from the ledger and the kubelets. An error in the check of one node does not
stop the other checks.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Collection, Mapping
from typing import Final

from accelkit.audit.evidence import Ledger
from accelkit.enablement.work.findings import Finding, build_result, failed, skip_for, unknown
from accelkit.enablement.work.node_view import CheckedNode, list_checked_nodes
from accelkit.enablement.work.placement_judgement import judge_ledger, judge_placement, read_share
from accelkit.enablement.work.plugin_judgement import NO_IMAGE, judge_container, judge_kubelet
from accelkit.enablement.work.pod_board import PodBoard, PodSnapshot
from accelkit.enablement.work.pod_life import create_pod, delete_all, delete_own
from accelkit.enablement.work.pods import CheckPods, build_pod
from accelkit.enablement.work.reasons import WorkReason
from accelkit.enablement.work.room_check import judge_offer
from accelkit.enablement.work.sides import Sides, View
from accelkit.errors import ApiError, AssignmentError, ServiceError, raise_first
from accelkit.inspection.inspection import InspectedNode
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_pod_path
from accelkit.model.stage import NodeState, Outcome, Stage, StageResult

log = logging.getLogger(__name__)

AT_ONCE: Final = 32
# An agent reads its kubelet's allocations every 15 s.
AGREE_SECONDS: Final = 30.0
# A pod that kube-scheduler cannot place now may fit soon, for example when other pods terminate.
PATIENCE_SECONDS: Final = 30.0
# The maximum age of the ledger's data at the start of a node's check.
_FRESH_SECONDS: Final = 5.0
_Findings = tuple[Finding, Finding]
Results = Mapping[Stage, StageResult]
_ABSENT: Final = (unknown("NodeMissing", "the cluster has no node with this name"),) * 2


async def check_nodes(
    api: ApiClient, names: Collection[str], pods: CheckPods, *, ledger: Ledger, at_once: int = AT_ONCE
) -> dict[str, Results]:
    """Check nodes on which the device plugin runs; return the results of both stages when all pods are deleted.

    Args:
        api: an open client.
        names: names of the nodes.
        pods: the template of the pods, with the time limit for each pod.
        ledger: a function that returns the extender's ledger for all nodes, or the reason why it is unreadable.
        at_once: the maximum number of concurrent pods.

    Raises:
        ApiError: the API server denied access to nodes or pods.
        ServiceError: the pods could not be listed within the time limit.
    """
    before = await list_checked_nodes(api)
    # A pod on an unreachable node exists until the node is reachable again. In this case, only this node is not
    # checked.
    await _clear(api, pods.namespace)
    board, sides = PodBoard(api, pods.namespace), Sides(api, pods.namespace, ledger)
    checks = {name: _NodeCheck(api, before[name], pods, board, sides) for name in names if name in before}
    found: dict[str, tuple[_Findings, float]] = {}
    limit = asyncio.Semaphore(at_once)

    async def check(name: str) -> None:
        async with limit:
            started = time.monotonic()
            findings = await checks[name].run()
            found[name] = findings, time.monotonic() - started

    with raise_first(Exception):
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(board.run())
            if not await board.sync():
                raise ServiceError(
                    f"cannot list the pods of {pods.namespace}: the API server did not respond within the time limit",
                    next_step="check that the user may list and watch these pods (playbooks/files/installer.yml)",
                )
            async with asyncio.TaskGroup() as nodes:
                for name in checks:
                    nodes.create_task(check(name))
            watching.cancel()
    try:
        await _clear(api, pods.namespace)
    except ApiError as exc:
        # The findings remain valid.
        log.warning("%s", exc)
    after = await list_checked_nodes(api)
    results: dict[str, Results] = {}
    for name in sorted(names):
        findings, seconds, state = _ABSENT, 0.0, NodeState()
        if name in found:
            (findings, seconds), state = found[name], before[name].state
            findings = _conclude(findings, state, after.get(name))
        results[name] = _build(findings, state, seconds, node=name, namespace=pods.namespace)
    return results


async def _clear(api: ApiClient, namespace: str) -> None:
    try:
        await delete_all(api, namespace)
    except ServiceError as exc:
        # The pods are already being deleted.
        log.warning("%s", exc)


def _conclude(findings: _Findings, before: NodeState, after: CheckedNode | None) -> _Findings:
    """Return the findings for a node, or an unknown result if the node's state changed during the check."""
    if after is None:
        lost = unknown("NodeGone", "the node was removed from the cluster during the check")
        return lost, lost
    if after.state != before:
        changed = unknown("StateChanged", "the node was rebooted, or its drivers or cards changed, while the check ran")
        return changed, changed
    return findings


def _build(findings: _Findings, state: NodeState, seconds: float, *, node: str, namespace: str) -> Results:
    plugin, extender = (build_result(each, state, seconds, node=node, namespace=namespace) for each in findings)
    return {Stage.PLUGIN_CHECK: plugin, Stage.EXTENDER_CHECK: extender}


class _NodeCheck:
    """The check of one node."""

    def __init__(self, api: ApiClient, node: CheckedNode, pods: CheckPods, board: PodBoard, sides: Sides) -> None:
        self._api, self._node, self._pods, self._board, self._sides = api, node, pods, board, sides
        self._run = uuid.uuid4().hex

    async def run(self) -> _Findings:
        """Return the findings about the device plugin and the extender after the pod is deleted."""
        view = await self._sides.read(time.monotonic() - _FRESH_SECONDS)
        offer = judge_offer(self._node, self._find_counted(view))
        if offer is not None:
            # A full node cannot be checked, and the placement cannot be checked without devices.
            return offer, offer if offer.outcome is Outcome.UNKNOWN else skip_for(offer)
        body = build_pod(self._node.name, self._node.resource, self._pods, self._run)
        try:
            try:
                return await self._judge(await create_pod(self._api, body))
            finally:
                await self._delete(body["metadata"]["name"])
        except ApiError as exc:
            reason: WorkReason = (
                "OtherRun" if exc.already_exists else "ApiUnanswered" if exc.unanswered else "PodRefused"
            )
            problem = unknown(reason, f"cannot run the check pod of {self._node.name}: {exc.message}")
            return problem, problem

    async def _delete(self, name: str) -> None:
        try:
            await delete_own(self._api, build_pod_path(self._pods.namespace, name), self._run)
        except ApiError as exc:
            # The findings remain valid, and remaining pods are deleted at the end of the run.
            log.warning("check pod not deleted yet node=%s error=%s", self._node.name, exc)

    async def _judge(self, uid: str) -> _Findings:
        deadline = time.monotonic() + self._pods.seconds
        snapshot = await self._wait_until_placed(uid, deadline)
        counted = None
        if snapshot.pod is None or not snapshot.pod.spec.node_name:
            counted = self._find_counted(await self._sides.read(time.monotonic()))
        wrong = judge_placement(self._node, snapshot, counted)
        if wrong is not None:
            return wrong if wrong.outcome is Outcome.UNKNOWN else unknown("NotPlaced", wrong.evidence), wrong
        snapshot = await self._board.wait(uid, _is_settled, deadline)
        return await self._compare(uid, snapshot)

    async def _compare(self, uid: str, snapshot: PodSnapshot) -> _Findings:
        """Compare the pod, the kubelet's allocation and the ledger until they agree or the time limit is reached."""
        until = time.monotonic() + AGREE_SECONDS
        since = time.monotonic()
        while True:
            pod = snapshot.pod
            if pod is None:
                gone = unknown("PodGone", f"the check pod of {self._node.name} was not observed")
                return gone, gone
            try:
                share = read_share(pod, snapshot)
            except AssignmentError as exc:
                # Another client has overwritten the assignment. The node agent will correct it.
                broken = failed(
                    "AssignmentUnreadable", f"the assignment of the pod on {self._node.name} is invalid: {exc.message}"
                )
                return unknown("NotPlaced", broken.evidence), broken
            work = judge_container(self._node, snapshot, share)
            if work.outcome is not Outcome.PASS:
                # The allocation is not reliable, because the ledger and the kubelet release it when the pod terminates.
                return work, skip_for(work)
            view = await self._sides.read(since)
            plugin = judge_kubelet(self._node, pod, share, view, work)
            extender = judge_ledger(self._node, pod, share, view)
            settled = plugin.outcome is Outcome.PASS and extender.reason in {None, "LedgerUnread"}
            if settled or time.monotonic() >= until:
                return plugin, extender
            since = time.monotonic()
            snapshot = self._board.find(uid)

    async def _wait_until_placed(self, uid: str, deadline: float) -> PodSnapshot:
        tried = await self._board.wait(uid, _is_tried, deadline)
        patience = min(deadline, time.monotonic() + PATIENCE_SECONDS)
        return await self._board.wait(uid, _is_placed, patience) if not _is_placed(tried) else tried

    def _find_counted(self, view: View) -> InspectedNode | None:
        return None if isinstance(view.counted, ServiceError) else view.counted.get(self._node.name)


def _is_tried(snapshot: PodSnapshot) -> bool:
    pod = snapshot.pod
    return pod is not None and (
        _is_placed(snapshot) or (pod.scheduling is not None and pod.scheduling.status == "False")
    )


def _is_placed(snapshot: PodSnapshot) -> bool:
    return snapshot.pod is not None and (snapshot.gone or bool(snapshot.pod.spec.node_name))


def _is_settled(snapshot: PodSnapshot) -> bool:
    """Return whether the state is final, because the container has terminated or cannot start."""
    pod = snapshot.pod
    if pod is None:
        return False
    waiting = pod.check.waiting
    hopeless = waiting is not None and waiting.reason in NO_IMAGE
    return snapshot.gone or pod.terminal or hopeless or pod.check.terminated is not None
