"""Watch handler for nodes, which updates the ledger's feed and the records of stages."""

from __future__ import annotations

from collections.abc import Callable

from accelkit.extender.stages.records import StageRecords
from accelkit.ledger.feed import LedgerFeed
from accelkit.model.pod import Node


class NodeWatch:
    """Watch handler that applies lists of nodes and events about single nodes.

    Args:
        feed: the feed that updates the ledger.
        stages: the records of stages.
        on_replace: a function that is called after each list, because pods may have been listed before the nodes.
    """

    def __init__(self, feed: LedgerFeed, stages: StageRecords, *, on_replace: Callable[[], None]) -> None:
        self._feed = feed
        self._stages = stages
        self._on_replace = on_replace

    def replace(self, nodes: list[Node]) -> None:
        """Apply a complete list of nodes."""
        self._feed.replace_nodes(nodes)
        self._stages.replace(nodes)
        self._on_replace()

    def take_event(self, kind: str, node: Node) -> None:
        """Apply a single node change."""
        self._feed.take_node_event(kind, node)
        self._stages.take_event(kind, node)
