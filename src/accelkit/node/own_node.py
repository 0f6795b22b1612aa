"""Reads and writes this agent's own Node object: the inventory that it publishes and the cards that are cordoned."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec

from accelkit.errors import ApiError, InventoryError
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_node_path
from accelkit.model.cordon import read_cordon
from accelkit.model.inventory import Inventory, decode_inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION, REPAIRED_ANNOTATION
from accelkit.model.pod import Node

log = logging.getLogger(__name__)

# The extender follows the node itself; here it matters for the list of devices alone.
_READ_SECONDS = 30.0

_node = msgspec.json.Decoder(Node)


class OwnNode:
    """The Node object, read now and then.

    Args:
        api: an open client.
        name: the node's name.
        clock: seconds, never backwards.
    """

    def __init__(self, api: ApiClient, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self.name = name
        self._path = build_node_path(name)
        self._clock = clock
        self._read_at: float | None = None
        self.inventory: Inventory | None = None
        # Whether the node has one, be it one that cannot be read.
        self.published = False
        self.cordon: frozenset[str] = frozenset()
        # Words by which somebody says that cards are mended.
        self.mended: frozenset[str] = frozenset()

    async def read(self) -> bool:
        """Read the node where that was some time ago; False where it was never read."""
        if self._read_at is None or self._clock() - self._read_at >= _READ_SECONDS:
            try:
                self._take(_node.decode(await self._api.get(self._path)))
            except ApiError as exc:
                log.warning("this node cannot be read: %s", exc)
        return self._read_at is not None

    async def publish(self, inventory: Inventory) -> None:
        """Write the inventory where it is another one; what cannot be written is tried again at the next call."""
        if inventory == self.inventory:
            return
        try:
            annotations = {INVENTORY_ANNOTATION: encode_inventory(inventory)}
            self._take(_node.decode(await self._api.patch(self._path, {"metadata": {"annotations": annotations}})))
            log.info("published the inventory of %d cards", len(inventory.cards))
        except (ApiError, InventoryError) as exc:
            log.warning("the inventory could not be published: %s", exc)

    async def clear_mended(self) -> bool:
        """Take the annotation away, which is believed once; False where it could not be written."""
        try:
            gone = {"metadata": {"annotations": {REPAIRED_ANNOTATION: None}}}
            self._take(_node.decode(await self._api.patch(self._path, gone)))
        except ApiError as exc:
            log.warning("annotation %s cannot be taken away, so it is not followed: %s", REPAIRED_ANNOTATION, exc)
            return False
        return True

    def _take(self, node: Node) -> None:
        self._read_at = self._clock()
        self.cordon = read_cordon(node)
        words = (node.find_annotation(REPAIRED_ANNOTATION) or "").split(",")
        self.mended = frozenset(word.strip() for word in words if word.strip())
        text = node.find_annotation(INVENTORY_ANNOTATION)
        self.published = text is not None
        try:
            self.inventory = None if text is None else decode_inventory(text)
        except InventoryError as exc:
            log.warning("%s; it is written anew", exc)
            self.inventory = None
