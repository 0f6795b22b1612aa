"""Writes the observed allocations of this node to a ConfigMap, for audits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import patch_or_create
from accelkit.kube.paths import build_config_maps_path
from accelkit.logs import ErrorReporter
from accelkit.model.observed_allocations import (
    ALLOCATIONS_KEY,
    ALLOCATIONS_LABELS,
    Allocations,
    HeldDevices,
    HeldPod,
    StrangeProcess,
    encode_allocations,
    fit_allocations,
)
from accelkit.node.devices import DeviceIds
from accelkit.node.reconciliation.observed_assignment import ContainerDevices

log = logging.getLogger(__name__)

# How often they are written though nothing has changed: another writer may have damaged the ConfigMap.
REWRITE_SECONDS: Final = 120.0


def build_allocations(
    node: str,
    ids: DeviceIds,
    held: Mapping[tuple[str, str], Mapping[str, ContainerDevices]],
    processes: tuple[StrangeProcess, ...] | None,
    enforced: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> Allocations:
    """Return what the kubelet shows, by the cards that its devices are of, sorted, with what enforces their memory.

    What a ConfigMap has no room for is left out.
    """
    pods = [
        HeldPod(
            namespace,
            name,
            {
                container: HeldDevices(
                    dict(sorted(ids.count_by_card(devices.memory).items())), tuple(sorted(devices.whole))
                )
                for container, devices in sorted(containers.items())
            },
            enforced.get((namespace, name), ""),
        )
        for (namespace, name), containers in sorted(held.items())
    ]
    return fit_allocations(Allocations(node, tuple(pods), processes))


class AllocationsWriter:
    """Writes one node's allocations where they have changed, and every two minutes.

    Args:
        api: an open client.
        namespace: where the ConfigMap lies; None where nothing is to be passed on.
        node: the node's name, which is the ConfigMap's.
        clock: seconds, never backwards.
    """

    def __init__(
        self, api: ApiClient, namespace: str | None, node: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._folder = build_config_maps_path(namespace) if namespace else None
        self._node = node
        self._clock = clock
        self._written: Allocations | None = None
        self._written_at = 0.0
        self._errors = ErrorReporter(log)

    async def write(self, allocations: Allocations) -> None:
        """Write them; what cannot be written is tried again at the next call."""
        now = self._clock()
        if self._folder is None or (allocations == self._written and now - self._written_at < REWRITE_SECONDS):
            return
        data = {ALLOCATIONS_KEY: encode_allocations(allocations)}
        # The same key in `binaryData` would have the API server refuse it in `data`.
        patch = {"metadata": {"labels": ALLOCATIONS_LABELS}, "data": data, "binaryData": None}
        # A request whose answer is lost may have been done, so nothing is known until one is answered.
        self._written = None
        try:
            await patch_or_create(self._api, self._folder, self._node, patch, self._config_map(data))
        except ApiError as exc:
            self._errors.report(str(exc), f"what the kubelet shows cannot be passed on for audits: {exc}")
            return
        self._errors.clear()
        self._written, self._written_at = allocations, now

    def _config_map(self, data: Mapping[str, str]) -> dict[str, object]:
        metadata = {"name": self._node, "labels": ALLOCATIONS_LABELS}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
