"""The rules by which a pod may be evicted for another one, each with the sentence that names it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from accelkit.defragmentation.suitability import PlannedPod
from accelkit.kube.disruptions.budgets import DisruptionBudgets
from accelkit.vendors.pod_reading import CardPod

# So many pods are named for each rule.
_MOST_NAMED: Final = 3


def find_rule(pod: CardPod, read: PlannedPod | None, waiting: CardPod, budgets: DisruptionBudgets) -> str:
    """Return the rule that keeps a bound pod from being evicted for one that waits; empty where none does.

    Args:
        pod: the bound one.
        read: what else was read of it; None where nothing was.
        waiting: the one that waits.
        budgets: as they are now.
    """
    if read is None:
        return "it cannot be read"
    if pod.ending:
        return "it is being deleted already"
    if pod.static:
        return "static pods are started again by their kubelet"
    if pod.priority > waiting.priority:
        return "its priority is higher"
    if not read.replaced:
        return "bare pods have no controller"
    return budgets.find_rule(pod.ref, read.metadata.labels or {})


def list_refusals(pods: Iterable[tuple[CardPod, str]]) -> str:
    """Return the rules that keep pods from being evicted, each with some of the pods; empty where none does."""
    by_rule: dict[str, list[str]] = {}
    for pod, rule in pods:
        if rule:
            by_rule.setdefault(rule, []).append(f"{pod.ref.namespace}/{pod.ref.name}")
    return "; ".join(f"{_name(names)}: {rule}" for rule, names in by_rule.items())


def _name(pods: list[str]) -> str:
    more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
    return ", ".join(pods[:_MOST_NAMED]) + more
