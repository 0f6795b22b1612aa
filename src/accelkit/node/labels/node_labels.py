"""Writer of the node's labels, through Node Feature Discovery if its API is installed, or directly otherwise."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import patch_or_create
from accelkit.kube.paths import build_collection_path, build_group_path, build_node_path
from accelkit.logs import ErrorReporter
from accelkit.model.card import Card
from accelkit.model.keys import LABELS_ANNOTATION, PART_OF_LABELS
from accelkit.model.label_record import read_label_record
from accelkit.model.pod import Node
from accelkit.node.labels.cards import build_card_labels
from accelkit.node.labels.plan import DebouncedLabels, LabelChanges, plan
from accelkit.node.labels.sources import (
    FEATURE,
    read_cpu_labels,
    read_kernel_labels,
    read_pci_labels,
    read_system_labels,
)
from accelkit.vendors.profiles import load_usable_profiles

log = logging.getLogger(__name__)

NFD_API: Final = "nfd.k8s-sigs.io/v1alpha1"
NFD_NODE_LABEL: Final = "nfd.node.kubernetes.io/node-name"

# The same interval as that of the worker of Node Feature Discovery.
_INTERVAL_SECONDS = 60.0

_node = msgspec.json.Decoder(Node)


class NodeLabels:
    """The labels of one node.

    Args:
        api: an open client.
        node: the node's name.
        namespace: the namespace of the NodeFeature object; None to always write the labels directly.
        root: the host's root folder.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        api: ApiClient,
        node: str,
        namespace: str | None,
        root: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._name = node
        self._namespace = namespace
        self._sources = [
            partial(source, root)
            for source in (read_pci_labels, read_cpu_labels, read_kernel_labels, read_system_labels)
        ]
        self._debounced = [DebouncedLabels() for _ in self._sources]
        self._cards = DebouncedLabels()
        self._clock = clock
        self._read_at: float | None = None
        self._errors = ErrorReporter(log)

    async def update(self, cards: Sequence[Card]) -> None:
        """Read the host and write changed labels. After a failure, retry the write one minute later."""
        if self._read_at is not None and self._clock() - self._read_at < _INTERVAL_SECONDS:
            return
        self._read_at = self._clock()
        desired = await asyncio.to_thread(self._build_labels, cards)
        try:
            await self._write(desired)
        except ApiError as exc:
            self._errors.report(str(exc), f"cannot write the labels of this node: {exc}")
        else:
            self._errors.clear()

    def _build_labels(self, cards: Sequence[Card]) -> dict[str, str]:
        desired: dict[str, str] = {}
        for source, debounced in zip(self._sources, self._debounced, strict=True):
            desired |= debounced.update(source())
        return {**desired, **self._cards.update(build_card_labels(cards, load_usable_profiles().profiles))}

    async def _write(self, desired: Mapping[str, str]) -> None:
        node = _node.decode(await self._api.get(build_node_path(self._name)))
        recorded = read_label_record(node)
        through_nfd = self._namespace is not None and await self._has_nfd()
        present = node.metadata.labels or {}
        # Vendors' labels are written directly, because NFD's master uses an arbitrary object if two objects contain the
        # same label.
        desired_by_nfd, desired_directly = _split(desired, through_nfd=through_nfd)
        recorded_by_nfd, recorded_directly = _split(recorded, through_nfd=through_nfd)
        features = plan(desired_by_nfd, present, recorded_by_nfd, by_others=False)
        changes = plan(desired_directly, present, recorded_directly)
        if changes.lost:
            log.warning(
                "stopped managing labels that another client changed keys=%s",
                ", ".join(sorted(changes.lost)),
            )
        if through_nfd:
            await self._write_feature(features, recorded_by_nfd)
        record = {**features.record, **changes.record}
        if record != recorded or changes.write or changes.delete:
            await self._write_node(node, changes, record)

    async def _has_nfd(self) -> bool:
        try:
            await self._api.get(build_group_path(NFD_API))
        except ApiError as exc:
            if exc.not_found or exc.forbidden:
                return False
            raise
        return True

    async def _write_feature(self, changes: LabelChanges, recorded: Mapping[str, str]) -> None:
        features = build_collection_path(NFD_API, "nodefeatures", self._namespace)
        # In a merge patch, a key is deleted by setting it to null.
        deleted = dict.fromkeys(recorded.keys() - changes.record.keys())
        patch = {"spec": {"labels": {**deleted, **changes.record}}}
        await patch_or_create(self._api, features, self._name, patch, self._build_feature(changes.record))

    def _build_feature(self, labels: Mapping[str, str]) -> dict[str, object]:
        metadata = {
            "name": self._name,
            "labels": {NFD_NODE_LABEL: self._name, **PART_OF_LABELS},
        }
        return {
            "apiVersion": NFD_API,
            "kind": "NodeFeature",
            "metadata": metadata,
            "spec": {"labels": dict(labels)},
        }

    async def _write_node(self, node: Node, changes: LabelChanges, record: Mapping[str, str]) -> None:
        metadata = {
            "annotations": {LABELS_ANNOTATION: msgspec.json.encode(dict(sorted(record.items()))).decode()},
            # The patch fails if another client has changed the node since it was read.
            "resourceVersion": node.metadata.resource_version,
            "labels": {**dict.fromkeys(changes.delete), **changes.write},
        }
        await self._api.patch(build_node_path(self._name), {"metadata": metadata})
        log.info("updated labels of the node managed=%d", len(record))


def _split(labels: Mapping[str, str], *, through_nfd: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels for Node Feature Discovery, and the labels to write directly."""
    features = {key: value for key, value in labels.items() if through_nfd and key.startswith(FEATURE)}
    return features, {key: value for key, value in labels.items() if key not in features}
