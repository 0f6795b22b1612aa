"""Evaluation of all stages of a node. A stage is evaluated only if all stages that it depends on have passed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.reasons import NEXT_ACTIONS, StageReason
from accelkit.enablement.stages.device_plugin import judge_device_plugin
from accelkit.enablement.stages.discover import judge_discover
from accelkit.enablement.stages.driver import judge_driver, judge_driver_check
from accelkit.enablement.stages.feature_labels import judge_feature_labels
from accelkit.enablement.stages.kernel_caches import judge_kernel_caches
from accelkit.enablement.stages.monitoring import judge_monitoring
from accelkit.enablement.stages.recorded import judge_extender_check, judge_plugin_check
from accelkit.enablement.stages.runtime_hook import judge_runtime_hook
from accelkit.model.stage import MAX_EVIDENCE, NEEDS, Outcome, Stage, StageResult
from accelkit.texts import shorten

_JUDGES: Final[Mapping[Stage, Callable[[NodeFacts], StageResult]]] = MappingProxyType(
    {
        Stage.DISCOVER: judge_discover,
        Stage.DRIVER: judge_driver,
        Stage.DRIVER_CHECK: judge_driver_check,
        Stage.RUNTIME_HOOK: judge_runtime_hook,
        Stage.DEVICE_PLUGIN: judge_device_plugin,
        Stage.PLUGIN_CHECK: judge_plugin_check,
        Stage.EXTENDER_CHECK: judge_extender_check,
        Stage.KERNEL_CACHE_CHECK: judge_kernel_caches,
        Stage.MONITORING: judge_monitoring,
        Stage.FEATURE_LABELS: judge_feature_labels,
    }
)


def judge_node(facts: NodeFacts, *, now: float) -> dict[Stage, StageResult]:
    """Return the results of all stages for one node, in order.

    Args:
        facts: the facts about the node.
        now: the current time in Unix seconds, which is recorded for results from current facts.
    """
    results: dict[Stage, StageResult] = {}
    for stage in Stage:
        cause = find_cause(stage, results)
        result = _JUDGES[stage](facts) if cause is None else skip_for(cause, results[cause])
        results[stage] = result if result.found_at else msgspec.structs.replace(result, found_at=now)
    return results


def find_cause(stage: Stage, results: Mapping[Stage, StageResult]) -> Stage | None:
    """Return the first stage that this stage depends on and that did not pass; None if all of them passed."""
    for need in NEEDS[stage]:
        if (cause := find_cause(need, results)) is not None:
            return cause
        if results[need].outcome is not Outcome.PASS:
            return need
    return None


def skip_for(cause: Stage, result: StageResult) -> StageResult:
    """Return the result of a stage that was skipped because of another stage."""
    evidence = f"{cause} did not pass: its outcome is {result.outcome}{f' ({result.reason})' if result.reason else ''}"
    reason = StageReason.NEED_NOT_PASSED
    return StageResult(Outcome.SKIPPED, reason, shorten(evidence, MAX_EVIDENCE), NEXT_ACTIONS[reason])
