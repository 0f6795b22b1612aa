"""Hands the nodes that the API server shows to the ledger's feed, and to what keeps the results of stages."""

from __future__ import annotations

from collections.abc import Callable

from accelkit.extender.stages.records import StageRecords
from accelkit.ledger.feed import LedgerFeed
from accelkit.model.pod import Node


class NodeWatch:
    """Takes lists and single events of nodes.

    Args:
        feed: brings the ledger up to date.
        stages: keeps what stages found.
        on_replace: called after each list: pods may have been listed first, when no node was known.
    """

    def __init__(self, feed: LedgerFeed, stages: StageRecords, *, on_replace: Callable[[], None]) -> None:
        self._feed = feed
        self._stages = stages
        self._on_replace = on_replace

    def replace(self, nodes: list[Node]) -> None:
        """Take over a complete list of nodes."""
        self._feed.replace_nodes(nodes)
        self._stages.replace(nodes)
        self._on_replace()

    def take_event(self, kind: str, node: Node) -> None:
        """Take over one change of a node."""
        self._feed.take_node_event(kind, node)
        self._stages.take_event(kind, node)
