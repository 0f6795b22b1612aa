"""The documents that accelkit writes on objects, as anybody else may write them: read, or refused with a reason."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from fuzzing.objects import CARDS, Objects
from fuzzing.rounds import FindingError, Tally, check_sentence
from fuzzing.values import GIB, Json, draw_values

from accelkit.errors import AccelkitError
from accelkit.model.assignment import decode_assignment, encode_assignment
from accelkit.model.cordon import apply_cordon
from accelkit.model.inventory import MAX_INVENTORY_BYTES, Inventory, decode_inventory, encode_inventory
from accelkit.model.keys import LABELS_ANNOTATION
from accelkit.model.label_record import find_owned_labels
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.observed_allocations import decode_allocations, encode_allocations
from accelkit.model.pod import Node
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.card_state import build_empty_states
from accelkit.placement.fit import place
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialect

_REQUEST: Final = PodRequest((ContainerRequest("c", Kind.APP, 2, GIB, numa="single", link="any"),))


class DocumentsRound:
    """Documents without a cluster.

    Args:
        rng: all that happens follows from its seed.
    """

    def __init__(self, rng: random.Random) -> None:
        self.tally = Tally()
        self._values = draw_values(rng)
        self._objects = Objects(self._values, load_dialect("native"))

    async def run(self, objects: int) -> None:
        """Read so many documents.

        Raises:
            FindingError: a property does not hold.
        """
        while self.tally.objects < objects:
            self._values.one((self._read_inventory, self._read_inventory, self._read_others))()

    def _read_inventory(self) -> None:
        honest = self._objects.inventory()
        if self._values.hostile(0.01):
            honest["cards"] = [{**card, "model": "x" * 9000} for card in honest["cards"]]
        text = self._values.document(honest)
        inventory = self._read("inventory", text, decode_inventory)
        if inventory is None:
            return
        if len(text.encode()) > MAX_INVENTORY_BYTES:
            raise FindingError("an inventory that is too long is read", text)
        with self.tally.measure("inventory's use", text):
            self._use(inventory)

    def _use(self, inventory: Inventory) -> None:
        try:
            if decode_inventory(encode_inventory(inventory)) != inventory:
                raise FindingError("an inventory is another one when it is written and read", repr(inventory))
        except AccelkitError as exc:
            raise FindingError("an inventory that was read cannot be written", repr(inventory)) from exc
        words = frozenset(self._values.some((*CARDS, "all", "card1", "²", "3"), 3))
        cards = apply_cordon(inventory.cards, words)
        if [card.id for card in cards] != [card.id for card in inventory.cards]:
            raise FindingError("a cordon changes which cards there are", repr(inventory))
        place(build_empty_states(cards), _REQUEST, Policy.SPREAD)

    def _read_others(self) -> None:
        values = self._values
        text = values.document(self._objects.assignment(("c0", "c1")))
        assignment = self._read("assignment", text, decode_assignment)
        if assignment is not None and decode_assignment(encode_assignment(assignment)) != assignment:
            raise FindingError("an assignment is another one when it is written and read", text)
        held: Json = {"memory": dict.fromkeys(values.some(CARDS, 3), values.one((1, 0, -1, 2**64))), "whole": ["x"]}
        pod = {"namespace": "d", "name": "p", "containers": {"c": held}, "enforced_by": ""}
        process = {"card": values.one(CARDS), "pid": 1, "command": values.text(), "memory_bytes": None}
        text = values.document({"version": 1, "node": "n", "pods": [pod], "processes": [process]})
        found = self._read("allocations", text, decode_allocations)
        if found is not None and decode_allocations(encode_allocations(found)) != found:
            raise FindingError("allocations are others when they are written and read", text)
        text = values.document({"a": "b", values.text()[:99]: "c"})
        with self.tally.measure("record of labels", text):
            find_owned_labels(Node(ObjectMeta(annotations={LABELS_ANNOTATION: text}, labels={"a": "b"})))
        self.tally.objects += 1

    def _read(self, name: str, text: str, read: Callable[[str], Any]) -> Any:
        self.tally.objects += 1
        with self.tally.measure(name, text):
            try:
                return read(text)
            except AccelkitError as exc:
                self.tally.counts[f"{name} refused"] += 1
                check_sentence(f"the reason why an {name} is refused", str(exc), text)
        return None
