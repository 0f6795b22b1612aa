"""Registration of the metrics for this node's cards, from the cards' readings and holders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from accelkit.node.card_metrics.collector import CardCollector
from accelkit.node.card_metrics.holders import Holdings, list_holdings
from accelkit.node.card_metrics.watch import CardWatch, read_card
from accelkit.node.discovery import FoundCard
from accelkit.node.pods import NodePods


def register_card_metrics(
    registry: CollectorRegistry,
    node: str,
    *,
    cards: Callable[[], Sequence[FoundCard]],
    pods: Sequence[NodePods],
    load_nvml: Callable[[], Any | None],
    last_xids: Mapping[str, int],
) -> CardWatch:
    """Register a collector for the cards; return the watch, which the caller must run to read the cards.

    Args:
        registry: the registry of the metrics that are served.
        node: the node's name.
        cards: returns the published cards.
        pods: this node's pods, read in each dialect in which pods may request cards.
        load_nvml: returns the module `pynvml`, or None if NVIDIA's library is missing.
        last_xids: the number of the last error that NVIDIA's driver reported for each card.
    """
    watch = CardWatch(partial(read_card, load_nvml=load_nvml))

    def read_holdings() -> Holdings:
        known = {each.card.id: each.card for each in cards()}
        return list_holdings((pod for by_dialect in pods for pod in by_dialect.list_pods()), known)

    registry.register(
        CardCollector(
            node,
            cards=lambda: [each.card for each in cards()],
            readings=watch.list_current,
            holdings=read_holdings,
            last_xids=last_xids,
        )
    )
    return watch
