"""Rules that prevent the eviction of a pod in favor of a pending pod. A sentence describes each rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from accelkit.defragmentation.suitability import PlannedPod
from accelkit.kube.disruptions.budgets import DisruptionBudgets
from accelkit.vendors.pod_reading import CardPod

# The maximum number of pods to list for each rule.
_MOST_NAMED: Final = 3


def find_rule(pod: CardPod, read: PlannedPod | None, waiting: CardPod, budgets: DisruptionBudgets) -> str:
    """Return the rule that prevents the eviction of a bound pod for a pending pod; empty if the eviction is permitted.

    Args:
        pod: the bound pod.
        read: the same pod with additional fields; None if these fields were not read.
        waiting: the pending pod.
        budgets: the current disruption budgets.
    """
    if read is None:
        return "the pod cannot be read"
    if pod.ending:
        return "it is already being deleted"
    if pod.static:
        return "it is a static pod, which its kubelet would restart"
    if pod.priority > waiting.priority:
        return "its priority is higher"
    if not read.replaced:
        return "no controller would replace it"
    return budgets.find_rule(pod.ref, read.metadata.labels or {})


def list_refusals(pods: Iterable[tuple[CardPod, str]]) -> str:
    """Return a string with the rules that prevent evictions and some of the affected pods; empty without rules."""
    by_rule: dict[str, list[str]] = {}
    for pod, rule in pods:
        if rule:
            by_rule.setdefault(rule, []).append(f"{pod.ref.namespace}/{pod.ref.name}")
    return "; ".join(f"{_name(names)}: {rule}" for rule, names in by_rule.items())


def _name(pods: list[str]) -> str:
    more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
    return ", ".join(pods[:_MOST_NAMED]) + more
