"""Table of `accelkit defrag`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.defragmentation.plan import DefragmentationPlan


def build_plan_table(plan: DefragmentationPlan) -> RenderableType:
    """Return the plan as lines for a terminal."""
    if not plan.steps and not plan.left_out:
        return Text("No pods are waiting for cards after a refusal by kube-scheduler.")
    return Group(*_list_lines(plan))


def _list_lines(plan: DefragmentationPlan) -> Iterator[Text]:
    for number, step in enumerate(plan.steps, 1):
        title = f"{number}. {step.namespace}/{step.pod} (priority {step.priority}) would fit on {step.node}"
        yield Text(title if step.evictions else f"{title} without evictions", style="bold")
        for each in step.evictions:
            then = f"its replacement fits on {each.fits}" if each.fits else "its replacement fits on no node"
            yield Text(f"   evict {each.namespace}/{each.pod} (priority {each.priority}): {then}")
    for left in plan.left_out:
        line = f"- {left.namespace}/{left.pod} (priority {left.priority}) would still wait: {left.reason}"
        yield Text(line, style="yellow")
    evictions = f"{plan.evictions} eviction{'' if plan.evictions == 1 else 's'}"
    pods = f"{len(plan.steps)} pod{'' if len(plan.steps) == 1 else 's'}"
    yield Text(f"{evictions}; {pods} would be bound, {len(plan.left_out)} would still wait.")
