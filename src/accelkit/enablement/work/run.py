"""Checks nodes by a pod on each: creates them, watches them, judges them, and deletes them whatever happens.

All nodes are checked side by side, so many at once. They share one list of nodes before and one after, one watch of
pods, and the looks at ledger and kubelets. What one node's check runs into stops no other.
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
from accelkit.enablement.work.offer import judge_offer
from accelkit.enablement.work.placement_judgement import judge_ledger, judge_placement, read_share
from accelkit.enablement.work.plugin_judgement import NO_IMAGE, judge_container, judge_kubelet
from accelkit.enablement.work.pod_board import PodBoard, Sight
from accelkit.enablement.work.pod_life import create_pod, delete_all, delete_own
from accelkit.enablement.work.pods import CheckPods, build_pod
from accelkit.enablement.work.sides import Sides, View
from accelkit.errors import ApiError, AssignmentError, ServiceError, raise_first
from accelkit.inspection.inspection import NodeView
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_pod_path
from accelkit.model.stage import NodeState, Outcome, Stage, StageResult

log = logging.getLogger(__name__)

AT_ONCE: Final = 32
# An agent that has just looked at its kubelet looks again after 15 s.
AGREE_SECONDS: Final = 30.0
# What kube-scheduler cannot place now may have room in a moment, as when other pods end.
PATIENCE_SECONDS: Final = 30.0
# What is counted of a node that nothing has been asked of yet may be so old.
_FRESH_SECONDS: Final = 5.0
_Findings = tuple[Finding, Finding]
Results = Mapping[Stage, StageResult]
_ABSENT: Final = (unknown("NodeMissing", "the cluster has no node of this name"),) * 2


async def check_nodes(
    api: ApiClient, names: Collection[str], pods: CheckPods, *, ledger: Ledger, at_once: int = AT_ONCE
) -> dict[str, Results]:
    """Check nodes whose device plugin runs, and return the results of both stages; the pods are gone afterwards.

    Args:
        api: an open client.
        names: of the nodes.
        pods: what the pods are made of, and how long each may take.
        ledger: asks the extender for all nodes, or says why it does not answer.
        at_once: how many pods there may be at one time.

    Raises:
        ApiError: the API server lets us list no nodes or pods.
        ServiceError: the pods could not be listed in time.
    """
    before = await list_checked_nodes(api)
    # One on a node that is away stays until that comes back: then that node is not checked, and all others are.
    await _clear(api, pods.namespace)
    board, sides = PodBoard(api, pods.namespace), Sides(api, pods.namespace, ledger)
    checks = {name: _NodeCheck(api, before[name], pods, board, sides) for name in names if name in before}
    found: dict[str, tuple[_Findings, float]] = {}
    turn = asyncio.Semaphore(at_once)

    async def check(name: str) -> None:
        async with turn:
            started = time.monotonic()
            findings = await checks[name].run()
            found[name] = findings, time.monotonic() - started

    with raise_first(Exception):
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(board.run())
            if not await board.sync():
                raise ServiceError(
                    f"the pods of {pods.namespace} could not be listed in time",
                    next_step="see that the user may list and watch pods there (playbooks/files/installer.yml)",
                )
            async with asyncio.TaskGroup() as nodes:
                for name in checks:
                    nodes.create_task(check(name))
            watching.cancel()
    try:
        await _clear(api, pods.namespace)
    except ApiError as exc:
        # What was found stands.
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
        # They were told to go, and end by themselves.
        log.warning("%s", exc)


def _conclude(findings: _Findings, before: NodeState, after: CheckedNode | None) -> _Findings:
    """Return what was found of a node, unless that is not the node it was any more."""
    if after is None:
        lost = unknown("NodeGone", "the node left the cluster while it was checked")
        return lost, lost
    if after.state != before:
        changed = unknown(
            "StateChanged", "the node was rebooted, or its drivers or cards changed, while it was checked"
        )
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
        """Return what was found of the device plugin and of the extender; the pod is gone."""
        view = await self._sides.look(time.monotonic() - _FRESH_SECONDS)
        offer = judge_offer(self._node, self._find_counted(view))
        if offer is not None:
            # Of a node that is full nothing is known, and without devices there is nothing to place.
            return offer, offer if offer.outcome is Outcome.UNKNOWN else skip_for(offer)
        body = build_pod(self._node.name, self._node.resource, self._pods, self._run)
        try:
            try:
                return await self._judge(await create_pod(self._api, body))
            finally:
                await self._delete(body["metadata"]["name"])
        except ApiError as exc:
            reason = "OtherRun" if exc.already_exists else "ApiUnanswered" if exc.unanswered else "PodRefused"
            problem = unknown(reason, f"the check pod of {self._node.name}: {exc.message}")
            return problem, problem

    async def _delete(self, name: str) -> None:
        try:
            await delete_own(self._api, build_pod_path(self._pods.namespace, name), self._run)
        except ApiError as exc:
            # What was found stands, and all that is left is deleted at the end.
            log.warning("the check pod of %s is not deleted yet: %s", self._node.name, exc)

    async def _judge(self, uid: str) -> _Findings:
        deadline = time.monotonic() + self._pods.seconds
        sight = await self._wait_until_placed(uid, deadline)
        counted = None
        if sight.pod is None or not sight.pod.spec.node_name:
            counted = self._find_counted(await self._sides.look(time.monotonic()))
        wrong = judge_placement(self._node, sight, counted)
        if wrong is not None:
            return wrong if wrong.outcome is Outcome.UNKNOWN else unknown("NotPlaced", wrong.evidence), wrong
        sight = await self._board.wait(uid, _is_settled, deadline)
        return await self._compare(uid, sight)

    async def _compare(self, uid: str, sight: Sight) -> _Findings:
        """Compare all sides until they agree, or have had time enough to."""
        until = time.monotonic() + AGREE_SECONDS
        since = time.monotonic()
        while True:
            pod = sight.pod
            if pod is None:
                gone = unknown("PodGone", f"the check pod of {self._node.name} was not seen")
                return gone, gone
            try:
                share = read_share(pod, sight)
            except AssignmentError as exc:
                # Somebody has written it anew, which its agent will correct.
                broken = failed("AssignmentUnreadable", f"the assignment of {self._node.name}'s pod: {exc.message}")
                return unknown("NotPlaced", broken.evidence), broken
            work = judge_container(self._node, sight, share)
            if work.outcome is not Outcome.PASS:
                # What it was given is in doubt, and is gone from ledger and kubelet where the pod has ended.
                return work, skip_for(work)
            view = await self._sides.look(since)
            plugin = judge_kubelet(self._node, pod, share, view, work)
            extender = judge_ledger(self._node, pod, share, view)
            settled = plugin.outcome is Outcome.PASS and extender.reason in {"", "LedgerUnread"}
            if settled or time.monotonic() >= until:
                return plugin, extender
            since = time.monotonic()
            sight = self._board.see(uid)

    async def _wait_until_placed(self, uid: str, deadline: float) -> Sight:
        tried = await self._board.wait(uid, _is_tried, deadline)
        patience = min(deadline, time.monotonic() + PATIENCE_SECONDS)
        return await self._board.wait(uid, _is_placed, patience) if not _is_placed(tried) else tried

    def _find_counted(self, view: View) -> NodeView | None:
        return None if isinstance(view.counted, ServiceError) else view.counted.get(self._node.name)


def _is_tried(sight: Sight) -> bool:
    pod = sight.pod
    return pod is not None and (_is_placed(sight) or (pod.scheduling is not None and pod.scheduling.status == "False"))


def _is_placed(sight: Sight) -> bool:
    return sight.pod is not None and (sight.gone or bool(sight.pod.spec.node_name))


def _is_settled(sight: Sight) -> bool:
    """Tell whether nothing more is to be waited for: the container has ended, or never will."""
    pod = sight.pod
    if pod is None:
        return False
    waiting = pod.check.waiting
    hopeless = waiting is not None and waiting.reason in NO_IMAGE
    return sight.gone or pod.terminal or hopeless or pod.check.terminated is not None
