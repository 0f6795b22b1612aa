"""What `inspect` answers below the paths of other systems, in their JSON: amounts in units of memory or in slices.

GCUShare of 2022 lists nodes with devices by number; its source of 2025 answers a bare array, with devices by their
number as key; Aliyun's gpushare has its own names. Their defects are not copied: no answer fails over a pod that is not
allocated yet, a pod that has ended is not counted, and an unknown node is a sentence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from accelkit.ledger.holding import Holding, NodeEntry
from accelkit.model.units import WHOLE_COMPUTE
from accelkit.vendors.dialects import Dialect, load_dialect

Json = dict[str, Any]


def foreign_inspects(names: Iterable[str], created: Callable[[str], str]) -> dict[str, ForeignInspect]:
    """Return who answers below each path prefix.

    Args:
        names: the dialects in use.
        created: when a pod was created, by UID.
    """
    gcushare = "gcushare-2025" if "gcushare-2025" in names else "gcushare"
    prefixes = {"/gcushare-scheduler": gcushare, "/gpushare-scheduler": "aliyun"}
    return {prefix: ForeignInspect(load_dialect(name), created) for prefix, name in prefixes.items()}


class ForeignInspect:
    """Answers in one system's JSON.

    Args:
        dialect: the system.
        created: when a pod was created, by UID; empty where that is not known.
    """

    def __init__(self, dialect: Dialect, created: Callable[[str], str]) -> None:
        self._dialect = dialect
        self._created = created
        self._node = {"gcushare": self._gcushare, "gcushare-2025": self._gcushare_2025, "aliyun": self._aliyun}[
            dialect.name
        ]

    def all(self, entries: Iterable[NodeEntry]) -> object:
        """Return the answer for all nodes with cards."""
        nodes = [self._node(entry) for entry in entries if entry.inventory is not None]
        return nodes if self._dialect.name == "gcushare-2025" else {"nodes": nodes}

    def one(self, entry: NodeEntry | None, name: str) -> tuple[int, object]:
        """Return status and answer for one node."""
        if entry is None or entry.inventory is None:
            known = f"node: {name} is not the gcushare node"
            return 404, {"error": known if self._dialect.name.startswith("gcushare") else _absent(name)}
        node = self._node(entry)
        return 200, node if self._dialect.name == "gcushare-2025" else {"nodes": [node]}

    def _gcushare(self, entry: NodeEntry) -> Json:
        unit = _unit(entry)
        devices = [
            {
                "id": number,
                **_amounts("GCU", capacity, used),
                "pods": [
                    {
                        "name": held.pod.name,
                        "namespace": held.pod.namespace,
                        "uid": held.pod.uid,
                        "createTime": self._created(held.pod.uid),
                        "usedGCU": amount // unit,
                    }
                    for held, amount in pods
                ],
            }
            for number, capacity, used, pods in _devices(entry, unit)
        ]
        return {"name": entry.name, **_sums("GCU", devices), "devices": devices}

    def _gcushare_2025(self, entry: NodeEntry) -> Json:
        per_card = self._dialect.resources.per_card
        devices: dict[str, Json] = {}
        for place, card in enumerate(entry.cards()):
            held = [(held, charge.compute) for held in _holders(entry) if (charge := held.charges.get(card.id))]
            counts = [(held, round(compute * per_card / WHOLE_COMPUTE)) for held, compute in held]
            devices[str(place if card.number is None else card.number)] = {
                "virt": "Shared",
                **_amounts("GCU", per_card, sum(count for _, count in counts)),
                "pods": [
                    {
                        "name": held.pod.name,
                        "namespace": held.pod.namespace,
                        "uid": held.pod.uid,
                        "creationTimestamp": self._created(held.pod.uid),
                        "usedGCU": count,
                    }
                    for held, count in counts
                ],
            }
        return {"name": entry.name, **_sums("GCU", devices.values()), "devices": devices}

    def _aliyun(self, entry: NodeEntry) -> Json:
        unit = _unit(entry)
        devices: list[Json] = [
            {
                "id": number,
                "totalGPU": capacity,
                "usedGPU": used,
                "pods": [
                    {"name": held.pod.name, "namespace": held.pod.namespace, "usedGPU": amount // unit}
                    for held, amount in pods
                ],
            }
            for number, capacity, used, pods in _devices(entry, unit)
        ]
        sums = {key: sum(device[key] for device in devices) for key in ("totalGPU", "usedGPU")}
        return {"name": entry.name, **sums, "devs": devices}


def _absent(name: str) -> str:
    return f"node {name} is not known, or shares no cards"


def _unit(entry: NodeEntry) -> int:
    return entry.inventory.unit_bytes if entry.inventory else 1


def _holders(entry: NodeEntry) -> list[Holding]:
    return sorted(entry.holdings.values(), key=lambda held: (held.pod.namespace, held.pod.name))


def _devices(entry: NodeEntry, unit: int) -> Iterator[tuple[int, int, int, list[tuple[Holding, int]]]]:
    """Yield number, capacity and use in units, and the pods with their bytes, of each card."""
    by_card: dict[str, list[tuple[Holding, int]]] = defaultdict(list)
    for held in _holders(entry):
        for card_id, charge in held.charges.items():
            by_card[card_id].append((held, charge.memory_bytes))
    for place, card in enumerate(entry.cards()):
        pods = by_card[card.id]
        used = sum(amount for _, amount in pods) // unit
        yield place if card.number is None else card.number, card.capacity_bytes // unit, used, pods


def _amounts(word: str, total: int, used: int) -> Json:
    return {f"total{word}": total, f"used{word}": used, f"available{word}": total - used}


def _sums(word: str, devices: Iterable[Mapping[str, Any]]) -> Json:
    total, used = 0, 0
    for device in devices:
        total, used = total + device[f"total{word}"], used + device[f"used{word}"]
    return _amounts(word, total, used)
