"""Functions that run the checks on a cluster's nodes, and that read or remove the results."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from accelkit.audit.evidence import Ledger
from accelkit.enablement.work.findings import Finding, build_result, unknown
from accelkit.enablement.work.node_view import CheckedNode, list_checked_nodes
from accelkit.enablement.work.pod_life import count_pods, delete_all
from accelkit.enablement.work.pods import CheckPods
from accelkit.enablement.work.record import WORK_STAGES, Recorded, erase_record, find_valid, record_results
from accelkit.enablement.work.run import AT_ONCE, Results, check_nodes
from accelkit.errors import ApiError, ConfigurationError, ServiceError
from accelkit.install.nodes import for_each_node
from accelkit.kube.client import ApiClient
from accelkit.model.stage import MAX_EVIDENCE, NodeState, StageResult, judge_recorded, read_record
from accelkit.texts import shorten

_MAX_REASON: Final = 64


@dataclass(frozen=True)
class StageRun:
    """The outcome of a run of the checks, or of a removal.

    Attributes:
        results: the results of both checks, sorted by node.
        worked: the nodes on which a check pod ran; in check mode, the nodes on which a check pod would run.
        written: the nodes whose record changed or was removed; in check mode, the nodes whose record will certainly
            change.
        problems: for each node whose results could not be written, the reason.
        pods: the number of check pods that a removal has deleted; in check mode, the number that it would delete.
        left: the reason why check pods still exist after a removal; empty if no check pods exist.
    """

    results: Mapping[str, Results] = field(default_factory=dict)
    worked: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    pods: int = 0
    left: str = ""


async def run_stages(
    api: ApiClient,
    names: Collection[str],
    pods: CheckPods,
    *,
    ledger: Ledger,
    max_age_seconds: float,
    at_once: int = AT_ONCE,
    check: bool = False,
) -> StageRun:
    """Check the nodes that do not have valid recorded results, and record the new results.

    Args:
        api: an open client.
        names: names of nodes; empty for all shared nodes.
        pods: the template of check pods.
        ledger: a function that returns the extender's ledger, or the reason why it is unreadable.
        max_age_seconds: the time for which results for an unchanged state are valid.
        at_once: the maximum number of concurrent pods.
        check: whether to only return the nodes that would be checked, without running pods or writing results.

    Raises:
        ConfigurationError: a requested node does not exist.
        ApiError: the API server did not respond, or rejected a request. If it rejects the results of a node, `problems`
            contains the reason instead.
        ServiceError: the check pods could not be listed within the time limit.
    """
    nodes = await _choose(api, names)
    now = time.time()
    valid = {
        name: found
        for name, node in nodes.items()
        if (found := find_valid(node.recorded, node.state, now=now, max_age_seconds=max_age_seconds)) is not None
    }
    worked = tuple(name for name in nodes if name not in valid)
    if check:
        recorded = {name: read_results(node, pods.namespace) for name, node in nodes.items()}
        outdated = tuple(name for name in worked if _is_outdated(recorded[name], nodes[name].state))
        return StageRun(recorded, worked, outdated)
    if not worked:
        return StageRun(valid)
    checks = await check_nodes(api, worked, pods, ledger=ledger, at_once=at_once)
    written, problems = list[str](), dict[str, str]()

    async def record(name: str) -> None:
        try:
            done = await record_results(api, name, checks[name], max_age_seconds=max_age_seconds)
        except ApiError as exc:
            if exc.unavailable:
                raise
            # For example, the Node object has reached its size limit, which a kubelet can cause.
            done = Recorded(changed=False, problem=exc.message)
        if done.changed:
            written.append(name)
        if done.problem:
            problems[name] = done.problem

    await for_each_node(worked, record)
    results = {name: checks[name] if name in checks else valid[name] for name in nodes}
    return StageRun(results, worked, tuple(sorted(written)), problems)


async def remove_stages(api: ApiClient, namespace: str, *, check: bool = False) -> StageRun:
    """Delete all check pods, and remove the results from all nodes.

    The removal continues even if the kubelet does not confirm the deletion of a pod.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    recorded = tuple(
        sorted(name for name, node in (await list_checked_nodes(api)).items() if node.recorded is not None)
    )
    if check:
        return StageRun(written=recorded, pods=await count_pods(api, namespace))
    await for_each_node(recorded, lambda name: erase_record(api, name))
    present = await count_pods(api, namespace)
    try:
        deleted = await delete_all(api, namespace)
    except ServiceError as exc:
        return StageRun(written=recorded, pods=present, left=str(exc))
    return StageRun(written=recorded, pods=deleted)


def read_results(node: CheckedNode, namespace: str) -> Results:
    """Return the recorded results of both checks of a node; missing and unreadable results become unknown."""

    def build(finding: Finding) -> StageResult:
        return build_result(finding, node.state, 0.0, node=node.name, namespace=namespace)

    record = read_record(node.recorded)
    if record is None:
        problem = unknown("RecordUnreadable", f"the recorded results of {node.name} cannot be read")
        return dict.fromkeys(WORK_STAGES, build(problem))
    never = build(unknown("NeverChecked", f"{node.name} was never checked"))
    found = {stage: record.results.get(stage, never) for stage in WORK_STAGES}
    return {stage: _clean(judge_recorded(result, node.state)) for stage, result in found.items()}


def _clean(result: StageResult) -> StageResult:
    """Return a result with truncated texts, because clients that can write the node may bypass `write_record`."""
    return msgspec.structs.replace(
        result,
        reason=shorten(result.reason, _MAX_REASON),
        evidence=shorten(result.evidence, MAX_EVIDENCE),
        next_action=shorten(result.next_action, MAX_EVIDENCE),
    )


def _is_outdated(results: Results, state: NodeState) -> bool:
    """Return whether a new check will certainly change the recorded results."""
    return any(
        result.state != state or result.reason in {"NeverChecked", "RecordUnreadable"} for result in results.values()
    )


async def _choose(api: ApiClient, names: Collection[str]) -> dict[str, CheckedNode]:
    nodes = await list_checked_nodes(api)
    if unknown_names := sorted(set(names) - nodes.keys()):
        raise ConfigurationError(
            f"cannot find node {', '.join(unknown_names)}", next_step="list the nodes with `kubectl get nodes`"
        )
    # Nodes without cards are not checked, but nodes with unknown cards are checked.
    chosen = names or [name for name, node in nodes.items() if node.shared and (node.cards or node.problem)]
    return {name: nodes[name] for name in sorted(chosen)}
