"""Groups of nodes on which a pod does not fit for the same reason, and would fit after the same kind of change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accelkit.inspection.simulation import ChangeView, NodeSimulation

_LAST = (9, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same reason and the same kind of change, in ascending order of the size of the change."""

    nodes: tuple[NodeSimulation, ...]

    @property
    def best(self) -> NodeSimulation:
        """The node with the smallest change."""
        return self.nodes[0]

    @property
    def change(self) -> ChangeView | None:
        """The smallest change on any node in the group; None if there is no change."""
        return next(iter(self.best.changes), None)


def group_nodes(nodes: Iterable[NodeSimulation]) -> list[NodeGroup]:
    """Group the nodes on which a pod does not fit; return the groups in ascending order of their smallest change."""
    groups: dict[tuple[str, str, bool], list[NodeSimulation]] = {}
    for node in nodes:
        if not node.fits:
            kind = node.changes[0].kind if node.changes else ""
            groups.setdefault((node.sentence, kind, node.searched), []).append(node)
    found = [NodeGroup(tuple(sorted(members, key=_rank))) for members in groups.values()]
    return sorted(found, key=lambda group: (_rank(group.best), -len(group.nodes)))


def _rank(node: NodeSimulation) -> tuple[int, int, int, int]:
    return node.changes[0].order if node.changes else _LAST
