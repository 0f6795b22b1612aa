"""Draws the table of `accelkit defrag`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.defragmentation.plan import Plan


def build_plan_table(plan: Plan) -> RenderableType:
    """Return what a person reads."""
    if not plan.steps and not plan.left_out:
        return Text("No pod waits for cards that kube-scheduler has refused.")
    return Group(*_list_lines(plan))


def _list_lines(plan: Plan) -> Iterator[Text]:
    for number, step in enumerate(plan.steps, 1):
        title = f"{number}. {step.namespace}/{step.pod} (priority {step.priority}) gets in on {step.node}"
        yield Text(title if step.evictions else f"{title}: it fits already", style="bold")
        for each in step.evictions:
            then = f"another one like it fits {each.fits}" if each.fits else "no place for another one like it"
            yield Text(f"   evict {each.namespace}/{each.pod} (priority {each.priority}): {then}")
    for left in plan.left_out:
        line = f"- {left.namespace}/{left.pod} (priority {left.priority}) goes on waiting: {left.reason}"
        yield Text(line, style="yellow")
    evictions = f"{plan.evictions} eviction{'' if plan.evictions == 1 else 's'}"
    pods = f"{len(plan.steps)} pod{'' if len(plan.steps) == 1 else 's'}"
    yield Text(f"{evictions}, and {pods} in; {len(plan.left_out)} would go on waiting.")
