"""Puts the labels on the node: through Node Feature Discovery where its API is installed, by ourselves otherwise."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.ledger.feed import NODES
from accelkit.logs import Trouble
from accelkit.model.card import Card
from accelkit.model.label_record import LABELS_ANNOTATION, read_label_record
from accelkit.model.pod import Node
from accelkit.node.labels.cards import card_labels
from accelkit.node.labels.plan import Changes, Steady, plan
from accelkit.node.labels.sources import FEATURE, cpu_labels, kernel_labels, pci_labels, system_labels

log = logging.getLogger(__name__)

NFD_API: Final = "/apis/nfd.k8s-sigs.io/v1alpha1"
NFD_NODE_LABEL: Final = "nfd.node.kubernetes.io/node-name"

# As often as Node Feature Discovery's own worker looks.
_LOOK_SECONDS = 60.0

_node = msgspec.json.Decoder(Node)


class NodeLabels:
    """The labels of one node.

    Args:
        api: an open client.
        node: the node's name.
        namespace: where a NodeFeature object is written; empty where labels are always written by ourselves.
        root: the host's root folder.
        clock: seconds, never backwards.
    """

    def __init__(
        self, api: ApiClient, node: str, namespace: str, root: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._name = node
        self._namespace = namespace
        self._sources = [partial(source, root) for source in (pci_labels, cpu_labels, kernel_labels, system_labels)]
        self._steady = [Steady() for _ in self._sources]
        self._cards = Steady()
        self._clock = clock
        self._looked_at: float | None = None
        self._trouble = Trouble(log)

    async def update(self, cards: Sequence[Card]) -> None:
        """Look at the host, and write what has changed; what cannot be written is tried again a minute later.

        Args:
            cards: the node's cards.
        """
        if self._looked_at is not None and self._clock() - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = self._clock()
        wanted = await asyncio.to_thread(self._look, cards)
        try:
            await self._write(wanted)
        except ApiError as exc:
            self._trouble.tell(str(exc), f"the labels of this node could not be written: {exc}")
        else:
            self._trouble.over()

    def _look(self, cards: Sequence[Card]) -> dict[str, str]:
        wanted: dict[str, str] = {}
        for source, steady in zip(self._sources, self._steady, strict=True):
            wanted |= steady.see(source())
        return {**wanted, **self._cards.see(card_labels(cards))}

    async def _write(self, wanted: Mapping[str, str]) -> None:
        node = _node.decode(await self._api.get(f"{NODES}/{self._name}"))
        recorded = read_label_record(node)
        through_nfd = bool(self._namespace) and await self._has_nfd()
        present = node.metadata.labels or {}
        # Of two objects that name one label its master takes either, so vendors' keys do not go through it.
        asked, own = (_parted(labels, through_nfd=through_nfd) for labels in (wanted, recorded))
        through = plan(asked[0], present, own[0], by_others=False)
        changes = plan(asked[1], present, own[1])
        if changes.lost:
            log.warning("labels that somebody else has changed are theirs now: %s", ", ".join(sorted(changes.lost)))
        if through_nfd:
            await self._write_feature(through, own[0])
        record = {**through.record, **changes.record}
        if record != recorded or changes.write or changes.delete:
            await self._write_node(node, changes, record)

    async def _has_nfd(self) -> bool:
        try:
            await self._api.get(NFD_API)
        except ApiError as exc:
            if exc.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                return False
            raise
        return True

    async def _write_feature(self, changes: Changes, recorded: Mapping[str, str]) -> None:
        folder = f"{NFD_API}/namespaces/{self._namespace}/nodefeatures"
        # A merge patch: keys that are not ours any more must be named to go.
        gone = dict.fromkeys(recorded.keys() - changes.record.keys())
        try:
            await self._api.patch(f"{folder}/{self._name}", {"spec": {"labels": {**gone, **changes.record}}})
        except ApiError as exc:
            if exc.status != HTTPStatus.NOT_FOUND:
                raise
            await self._api.post(folder, self._feature(changes.record))

    def _feature(self, labels: Mapping[str, str]) -> dict[str, object]:
        metadata = {
            "name": self._name,
            "labels": {NFD_NODE_LABEL: self._name, "app.kubernetes.io/part-of": "accelkit"},
        }
        return {
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeature",
            "metadata": metadata,
            "spec": {"labels": dict(labels)},
        }

    async def _write_node(self, node: Node, changes: Changes, record: Mapping[str, str]) -> None:
        metadata = {
            "annotations": {LABELS_ANNOTATION: msgspec.json.encode(dict(sorted(record.items()))).decode()},
            # Nobody may have changed a label since we looked.
            "resourceVersion": node.metadata.resource_version,
            "labels": {**dict.fromkeys(changes.delete), **changes.write},
        }
        await self._api.patch(f"{NODES}/{self._name}", {"metadata": metadata})
        log.info("the node has %d labels of ours", len(record))


def _parted(labels: Mapping[str, str], *, through_nfd: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels that Node Feature Discovery is asked for, and those that we write."""
    asked = {key: value for key, value in labels.items() if through_nfd and key.startswith(FEATURE)}
    return asked, {key: value for key, value in labels.items() if key not in asked}
