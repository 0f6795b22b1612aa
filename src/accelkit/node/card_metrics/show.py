"""Joins what reads the cards of this node, who holds them, and the registry that shows both."""

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


def show_cards(
    registry: CollectorRegistry,
    node: str,
    *,
    cards: Callable[[], Sequence[FoundCard]],
    pods: Sequence[NodePods],
    load_nvml: Callable[[], Any | None],
    last_xids: Mapping[str, int],
) -> CardWatch:
    """Have a registry show the cards, and return what has to run so that they are read.

    Args:
        registry: whose metrics are served.
        node: the node's name.
        cards: those that are shown to the cluster.
        pods: this node's pods, read in each dialect by which they may hold cards.
        load_nvml: returns the module `pynvml`, or None where the library is not there.
        last_xids: the last error that NVIDIA's driver reported, by card.
    """
    watch = CardWatch(partial(read_card, load_nvml=load_nvml))

    def list_held() -> Holdings:
        known = {each.card.id: each.card for each in cards()}
        return list_holdings((pod for some in pods for pod in some.list_pods()), known)

    registry.register(
        CardCollector(
            node,
            cards=lambda: [each.card for each in cards()],
            readings=watch.list_current,
            holdings=list_held,
            last_xids=last_xids,
        )
    )
    return watch
