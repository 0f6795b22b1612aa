"""Device IDs as a plugin tells them, and what a kubelet that lies makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fuzzing.objects import CARDS
from fuzzing.values import NUMBERS, TEXTS, Values

from accelkit.model.card import Card
from accelkit.node._proto import podresources_pb2 as resources_api
from accelkit.node.device_plugin.plugin import DevicePlugin


class Devices:
    """The device IDs of one node, and others.

    Attributes:
        ids: those that the plugins told of, of memory and of whole cards.
        card_of: the card of each.

    Args:
        values: draws the others.
        cards: those of the node.
        resources: the resources' names, of memory and of whole cards.
    """

    def __init__(self, values: Values, cards: Sequence[Card], resources: Mapping[bool, str]) -> None:
        self._values = values
        self._cards = cards
        self._resources = resources
        self.ids: dict[bool, list[str]] = {}
        self.card_of: dict[str, str] = {}

    def note(self, plugin: DevicePlugin, *, whole: bool) -> None:
        """Note what a plugin tells its kubelet: as many devices of each card, one card after the other."""
        told = [device.ID for device in plugin._devices.devices]
        self.ids[whole] = told
        each = len(told) // len(self._cards)
        self.card_of |= {device_id: self._cards[place // each].id for place, device_id in enumerate(told)}

    def count(self, given: Mapping[tuple[str, bool], Sequence[str]]) -> tuple[Counter[str], Counter[str]]:
        """Return how many devices of memory, and of whole cards, containers were given of each card."""
        counts = {False: Counter[str](), True: Counter[str]()}
        for (_, whole), ids in given.items():
            counts[whole].update(self.card_of[device_id] for device_id in ids)
        return counts[False], counts[True]

    def list_amounts(self, pod: dict[str, Any]) -> Iterator[tuple[str, bool, int | None]]:
        """Yield what the kubelet gives each container; None for a limit that the API server would not take."""
        for container in pod["spec"]["containers"]:
            limits = container["resources"]["limits"] or {}
            for whole, name in self._resources.items():
                if name in limits:
                    text = str(limits[name])
                    plain = text.isascii() and text.isdigit() and len(text) < 4
                    yield container["name"], whole, int(text) if plain and int(text) else None

    def draw(self, *, whole: bool) -> str:
        """Return one of the IDs, or one that nobody was told of."""
        values = self._values
        if values.chance(0.7):
            return values.one(self.ids[whole])
        card = values.one((*CARDS, "", "::", "GPU-99", _encodable(values.one(TEXTS))))
        number = values.one(NUMBERS)
        return values.one((card, f"{card}::{number}", f"{card}::{number}::1", f"::{number}", number))

    def add_lie(self, answer: resources_api.ListPodResourcesResponse, pods: Sequence[str]) -> None:
        """Add to what containers hold what they do not: containers of these pods, and of others."""
        values = self._values
        name = values.one(pods) if pods and values.chance(0.6) else _encodable(values.one(TEXTS))
        pod = answer.pod_resources.add(name=name, namespace=values.one(("d", "", "other")))
        for container in values.some(("c0", "c1", "i0", "", "ghost"), 3):
            ids = [self.draw(whole=False) for _ in range(int(values.rng.random() * 20))]
            name = values.one((*self._resources.values(), "other.io/x", ""))
            pod.containers.add(name=container).devices.add(resource_name=name, device_ids=ids)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
