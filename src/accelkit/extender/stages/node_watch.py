"""Hands the nodes that the API server shows to the ledger's feed, and to what keeps the results of stages."""

from __future__ import annotations

from accelkit.extender.stages.records import StageRecords
from accelkit.ledger.feed import LedgerFeed
from accelkit.model.pod import Node


class NodeWatch:
    """Takes lists and single events of nodes.

    Args:
        feed: brings the ledger up to date.
        stages: keeps what stages found.
    """

    def __init__(self, feed: LedgerFeed, stages: StageRecords) -> None:
        self._feed = feed
        self._stages = stages

    def replace(self, nodes: list[Node]) -> None:
        """Take over a complete list of nodes."""
        self._feed.replace_nodes(nodes)
        self._stages.replace(nodes)

    def take_event(self, kind: str, node: Node) -> None:
        """Take over one change of a node."""
        self._feed.take_node_event(kind, node)
        self._stages.take_event(kind, node)
