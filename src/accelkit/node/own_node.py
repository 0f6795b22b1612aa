"""The Node object of this agent's node, with the inventory that the agent publishes and the cordoned cards."""

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

# A watch is not required, because the extender watches the node, and the agent needs the cordon only for the device
# list.
_READ_SECONDS = 30.0

_node = msgspec.json.Decoder(Node)


class OwnNode:
    """The Node object, which is read again after `_READ_SECONDS`.

    Args:
        api: an open client.
        name: the name of the node.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, api: ApiClient, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self.name = name
        self._path = build_node_path(name)
        self._clock = clock
        self._read_at: float | None = None
        self.inventory: Inventory | None = None
        # Whether the node has an inventory, even one that cannot be decoded.
        self.published = False
        self.cordon: frozenset[str] = frozenset()
        # The words in the annotation with which an administrator declares cards repaired.
        self.declared_repaired: frozenset[str] = frozenset()

    async def read(self) -> bool:
        """Read the node unless it was read recently; return whether the node has ever been read."""
        if self._read_at is None or self._clock() - self._read_at >= _READ_SECONDS:
            try:
                self._take(_node.decode(await self._api.get(self._path)))
            except ApiError as exc:
                log.warning("cannot read this node: %s", exc)
        return self._read_at is not None

    async def publish(self, inventory: Inventory) -> None:
        """Write the inventory if it has changed; after a failure, the next call retries."""
        if inventory == self.inventory:
            return
        try:
            annotations = {INVENTORY_ANNOTATION: encode_inventory(inventory)}
            self._take(_node.decode(await self._api.patch(self._path, {"metadata": {"annotations": annotations}})))
            log.info("published inventory cards=%d", len(inventory.cards))
        except (ApiError, InventoryError) as exc:
            log.warning("cannot publish the inventory: %s", exc)

    async def clear_declaration(self) -> bool:
        """Remove the annotation for repaired cards, which applies only once; return whether the removal succeeded."""
        try:
            gone = {"metadata": {"annotations": {REPAIRED_ANNOTATION: None}}}
            self._take(_node.decode(await self._api.patch(self._path, gone)))
        except ApiError as exc:
            log.warning("cannot remove the annotation %s, so it is ignored: %s", REPAIRED_ANNOTATION, exc)
            return False
        return True

    def _take(self, node: Node) -> None:
        self._read_at = self._clock()
        self.cordon = read_cordon(node)
        words = (node.find_annotation(REPAIRED_ANNOTATION) or "").split(",")
        self.declared_repaired = frozenset(word.strip() for word in words if word.strip())
        text = node.find_annotation(INVENTORY_ANNOTATION)
        self.published = text is not None
        try:
            self.inventory = None if text is None else decode_inventory(text)
        except InventoryError as exc:
            log.warning("%s; the agent will replace the inventory", exc)
            self.inventory = None
