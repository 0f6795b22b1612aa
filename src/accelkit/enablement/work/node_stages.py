"""The checks of a cluster's nodes as an installation runs, reads and removes them."""

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
from accelkit.enablement.work.record import WORK_STAGES, Recorded, erase_record, find_believed, record_results
from accelkit.enablement.work.run import AT_ONCE, Results, check_nodes
from accelkit.errors import ApiError, ConfigurationError, ServiceError
from accelkit.install.nodes import for_each_node
from accelkit.kube.client import ApiClient
from accelkit.model.stage import MAX_EVIDENCE, NodeState, StageResult, judge_recorded, read_record
from accelkit.texts import shorten

_MAX_REASON: Final = 64


@dataclass(frozen=True)
class StageRun:
    """What is known of the nodes.

    Attributes:
        results: of both checks, by node, sorted.
        worked: the nodes on which work was done, or would be.
        written: the nodes on which another result was written, or all taken away; in check mode, would be for certain.
        problems: by node, why its results could not be written.
        pods: how many check pods a removal has deleted, or would delete.
        left: why check pods are there still after a removal; empty where none is.
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
    """Check the nodes whose recorded results cannot be believed, and record what was found.

    Args:
        api: an open client.
        names: of the nodes; empty for all that are shared.
        pods: what check pods are made of.
        ledger: asks the extender, or says why it does not answer.
        max_age_seconds: for how long results of the same state are believed.
        at_once: how many pods there may be at one time.
        check: do no work and write nothing; say of which nodes it would be done.

    Raises:
        ConfigurationError: a named node does not exist.
        ApiError: the API server refused or did not answer; of a refusal to write one node's results, its problem tells.
        ServiceError: check pods could not be listed in time.
    """
    nodes = await _choose(api, names)
    now = time.time()
    believed = {
        name: found
        for name, node in nodes.items()
        if (found := find_believed(node.recorded, node.state, now=now, max_age_seconds=max_age_seconds)) is not None
    }
    worked = tuple(name for name in nodes if name not in believed)
    if check:
        recorded = {name: read_results(node, pods.namespace) for name, node in nodes.items()}
        outdated = tuple(name for name in worked if _is_outdated(recorded[name], nodes[name].state))
        return StageRun(recorded, worked, outdated)
    if not worked:
        return StageRun(believed)
    checks = await check_nodes(api, worked, pods, ledger=ledger, at_once=at_once)
    written, problems = list[str](), dict[str, str]()

    async def record(name: str) -> None:
        try:
            done = await record_results(api, name, checks[name], max_age_seconds=max_age_seconds)
        except ApiError as exc:
            if exc.away:
                raise
            # As that of a node that has no room left, which its kubelet can see to.
            done = Recorded(changed=False, problem=exc.message)
        if done.changed:
            written.append(name)
        if done.problem:
            problems[name] = done.problem

    await for_each_node(worked, record)
    results = {name: checks[name] if name in checks else believed[name] for name in nodes}
    return StageRun(results, worked, tuple(sorted(written)), problems)


async def remove_stages(api: ApiClient, namespace: str, *, check: bool = False) -> StageRun:
    """Delete all check pods, and take the results off all nodes.

    A pod whose kubelet does not say that it has ended keeps nothing else from being removed.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    recorded = tuple(
        sorted(name for name, node in (await list_checked_nodes(api)).items() if node.recorded is not None)
    )
    if check:
        return StageRun(written=recorded, pods=await count_pods(api, namespace))
    await for_each_node(recorded, lambda name: erase_record(api, name))
    there = await count_pods(api, namespace)
    try:
        deleted = await delete_all(api, namespace)
    except ServiceError as exc:
        return StageRun(written=recorded, pods=there, left=str(exc))
    return StageRun(written=recorded, pods=deleted)


def read_results(node: CheckedNode, namespace: str) -> Results:
    """Return the recorded results of both checks of a node; what was never found, or cannot be read, is unknown."""

    def build(finding: Finding) -> StageResult:
        return build_result(finding, node.state, 0.0, node=node.name, namespace=namespace)

    record = read_record(node.recorded)
    if record is None:
        problem = unknown("RecordUnreadable", f"the results that {node.name} has cannot be read")
        return dict.fromkeys(WORK_STAGES, build(problem))
    never = build(unknown("NeverChecked", f"{node.name} was never checked"))
    found = {stage: record.results.get(stage, never) for stage in WORK_STAGES}
    return {stage: _clean(judge_recorded(result, node.state)) for stage, result in found.items()}


def _clean(result: StageResult) -> StageResult:
    """Return a result as it may be shown: whoever may write the node may have written it past `write_record`."""
    return msgspec.structs.replace(
        result,
        reason=shorten(result.reason, _MAX_REASON),
        evidence=shorten(result.evidence, MAX_EVIDENCE),
        next_action=shorten(result.next_action, MAX_EVIDENCE),
    )


def _is_outdated(results: Results, state: NodeState) -> bool:
    """Tell whether a check finds another result than what is recorded, whatever it finds."""
    return any(
        result.state != state or result.reason in {"NeverChecked", "RecordUnreadable"} for result in results.values()
    )


async def _choose(api: ApiClient, names: Collection[str]) -> dict[str, CheckedNode]:
    nodes = await list_checked_nodes(api)
    if unknown_names := sorted(set(names) - nodes.keys()):
        raise ConfigurationError(
            f"the cluster has no node {', '.join(unknown_names)}", next_step="`kubectl get nodes` lists its nodes"
        )
    # One that has no cards has nothing to check; one whose cards are not known has.
    chosen = names or [name for name, node in nodes.items() if node.shared and (node.cards or node.problem)]
    return {name: nodes[name] for name in sorted(chosen)}
