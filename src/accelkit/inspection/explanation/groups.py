"""Groups nodes that refuse a pod for the same reason, and would take it after the same kind of change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accelkit.inspection.simulation import ChangeView, NodeSimulation

_LAST = (9, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that are alike to a person; the one that needs the smallest change is the first."""

    nodes: tuple[NodeSimulation, ...]

    @property
    def best(self) -> NodeSimulation:
        """The node that needs the smallest change."""
        return self.nodes[0]

    @property
    def change(self) -> ChangeView | None:
        """The smallest change of all of them; None where there is none."""
        return next(iter(self.best.changes), None)


def group_nodes(nodes: Iterable[NodeSimulation]) -> list[NodeGroup]:
    """Return the nodes that a pod does not fit in groups, those that need the smallest change first."""
    groups: dict[tuple[str, str, bool], list[NodeSimulation]] = {}
    for node in nodes:
        if not node.fits:
            kind = node.changes[0].kind if node.changes else ""
            groups.setdefault((node.sentence, kind, node.searched), []).append(node)
    found = [NodeGroup(tuple(sorted(members, key=_rank))) for members in groups.values()]
    return sorted(found, key=lambda group: (_rank(group.best), -len(group.nodes)))


def _rank(node: NodeSimulation) -> tuple[int, int, int, int]:
    return node.changes[0].order if node.changes else _LAST
