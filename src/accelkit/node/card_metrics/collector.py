"""Prometheus collector for the measures and the holders of the node's cards. A scrape does not read the cards.

If the vendors' exporters use the same name for a metric, accelkit also uses this name, with values in base units. The
labels of a card's series do not depend on pods. If only one pod uses a card, the collector also exports the measures in
separate series with labels for the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from accelkit.model.card import Card
from accelkit.model.card_loss import is_lost
from accelkit.node.card_metrics.holders import CardHolder, Holdings
from accelkit.node.card_metrics.reading import CardReading
from accelkit.node.health.faults import Fault
from accelkit.vendors.xids import find_xid

_LABELS: Final = ("card", "vendor", "model", "node")
_POD_LABELS: Final = (*_LABELS, "namespace", "pod", "container")


@dataclass(frozen=True, slots=True)
class _Family:
    read: Callable[[CardReading], float | None]
    name: str
    text: str
    counter: bool = False
    of_pods: bool = False

    def make(self, *, of_pod: bool = False) -> CounterMetricFamily | GaugeMetricFamily:
        name = self.name.replace("accelerator_", "accelerator_pod_", 1) if of_pod else self.name
        text = f"{self.text} Reported while exactly one pod holds the card." if of_pod else self.text
        kind = CounterMetricFamily if self.counter else GaugeMetricFamily
        return kind(name, text, labels=_POD_LABELS if of_pod else _LABELS)


_FAMILIES: Final = (
    _Family(
        lambda found: found.utilization_ratio,
        "accelerator_utilization_ratio",
        "Utilization of the card, from 0 to 1.",
        of_pods=True,
    ),
    _Family(
        lambda found: found.memory_used_bytes,
        "accelerator_memory_used_bytes",
        "Memory of the card that all processes use in total.",
        of_pods=True,
    ),
    _Family(lambda found: found.memory_total_bytes, "accelerator_memory_total_bytes", "Memory of the card."),
    _Family(
        lambda found: found.temperature_celsius, "accelerator_temperature_celsius", "Temperature of the card's chip."
    ),
    _Family(lambda found: found.power_watts, "accelerator_power_usage_watts", "Power draw of the card.", of_pods=True),
    _Family(
        lambda found: found.energy_joules,
        "accelerator_energy_joules",
        "Energy that the card has consumed since its driver was loaded.",
        counter=True,
        of_pods=True,
    ),
    _Family(lambda found: found.sm_clock_hertz, "accelerator_sm_clock_hertz", "Clock of the card's compute units."),
    _Family(lambda found: found.memory_clock_hertz, "accelerator_memory_clock_hertz", "Clock of the card's memory."),
    _Family(
        lambda found: found.ecc_corrected,
        "accelerator_ecc_corrected_errors",
        "Corrected errors of the card's memories.",
        counter=True,
    ),
    _Family(
        lambda found: found.ecc_uncorrected,
        "accelerator_ecc_uncorrected_errors",
        "Uncorrected errors of the card's memories.",
        counter=True,
    ),
)


class CardCollector(Collector):
    """Collector for the cards of one node.

    Args:
        node: the node's name.
        cards: returns the published cards, with their health.
        readings: returns the current reading of each card.
        holdings: returns the holders of the cards.
        last_xids: the number of the last error that NVIDIA's driver reported for each card.
    """

    def __init__(
        self,
        node: str,
        *,
        cards: Callable[[], Sequence[Card]],
        readings: Callable[[], Mapping[str, CardReading]],
        holdings: Callable[[], Holdings],
        last_xids: Mapping[str, int],
    ) -> None:
        self._node = node
        self._cards = cards
        self._readings = readings
        self._holdings = holdings
        self._last_xids = last_xids

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        cards, holdings = self._cards(), self._holdings()
        yield from self._collect_states(cards)
        yield from self._collect_readings(cards, holdings.alone)
        shares = GaugeMetricFamily(
            "accelerator_share_memory_bytes",
            "Memory of the card that is allocated to the container.",
            labels=("namespace", "pod", "container", "card"),
        )
        for holder, amount in holdings.memory_bytes.items():
            shares.add_metric(holder, amount)
        yield shares

    def _collect_states(self, cards: Sequence[Card]) -> Iterator[Metric]:
        info = GaugeMetricFamily(
            "accelerator_info",
            "1 for each card, with its facts as labels.",
            labels=(*_LABELS, "pci_bus_id", "driver_version"),
        )
        health = GaugeMetricFamily(
            "accelerator_health_info",
            "1 for each card: healthy, unhealthy, unknown, or lost if it left the PCI bus or does not respond on it.",
            labels=(*_LABELS, "state"),
        )
        cordoned = GaugeMetricFamily("accelerator_cordoned", "1 if the card is cordoned, else 0.", labels=_LABELS)
        fault = GaugeMetricFamily(
            "accelerator_fault_info",
            "1 for each card that takes no new shares until it is repaired.",
            labels=(*_LABELS, "xid", "action"),
        )
        xid = GaugeMetricFamily(
            "accelerator_last_xid", "Number of the last error that NVIDIA's driver reported.", labels=_LABELS
        )
        for card in cards:
            labels = self._label(card)
            info.add_metric([*labels, card.bdf, card.driver_version], 1)
            health.add_metric([*labels, _name_state(card)], 1)
            cordoned.add_metric(labels, card.cordoned)
            if (found := Fault.parse(card.fault)) is not None:
                fault.add_metric([*labels, str(found.xid), find_xid(found.xid).action.value], 1)
            if card.id in self._last_xids:
                xid.add_metric(labels, self._last_xids[card.id])
        yield from (info, health, cordoned, fault, xid)

    def _collect_readings(self, cards: Sequence[Card], alone: Mapping[str, CardHolder]) -> Iterator[Metric]:
        current = self._readings()
        readings = {card.id: _complete(card, current.get(card.id, CardReading())) for card in cards}
        for family in _FAMILIES:
            of_cards, of_pods = family.make(), family.make(of_pod=True)
            for card in cards:
                value = family.read(readings[card.id])
                if value is None:
                    continue
                of_cards.add_metric(self._label(card), value)
                if family.of_pods and card.id in alone:
                    holder = alone[card.id]
                    labels = [*self._label(card), holder.namespace, holder.pod, holder.container]
                    of_pods.add_metric(labels, value)
            yield of_cards
            if family.of_pods:
                yield of_pods

    def _label(self, card: Card) -> list[str]:
        return [card.id, card.vendor, card.model, self._node]


def _complete(card: Card, reading: CardReading) -> CardReading:
    """Return the reading; if it does not contain the total memory, add the amount from discovery."""
    if reading.memory_total_bytes is not None or card.estimated:
        return reading
    return replace(reading, memory_total_bytes=card.memory_bytes)


def _name_state(card: Card) -> str:
    return "lost" if is_lost(card) else card.health.value
