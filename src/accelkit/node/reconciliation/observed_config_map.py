"""ConfigMap with the observed allocations of this node, for audits."""

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

# The interval at which an unchanged ConfigMap is written again, because another writer may have damaged it.
REWRITE_SECONDS: Final = 120.0


def build_allocations(
    node: str,
    ids: DeviceIds,
    held: Mapping[tuple[str, str], Mapping[str, ContainerDevices]],
    processes: tuple[StrangeProcess, ...] | None,
    enforced: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> Allocations:
    """Return the sorted amounts per card that the kubelet reports, with the mechanism that enforces each pod's memory.

    Entries that would exceed the size of a ConfigMap are omitted.
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
    """Writer of a node's observed allocations. It writes after each change and every two minutes.

    Args:
        api: an open client.
        namespace: the namespace of the ConfigMap; None to disable the ConfigMap.
        node: the name of the node, which is also the name of the ConfigMap.
        clock: a monotonic clock in seconds.
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
        """Write the allocations. After a failure, the next call retries."""
        now = self._clock()
        if self._folder is None or (allocations == self._written and now - self._written_at < REWRITE_SECONDS):
            return
        data = {ALLOCATIONS_KEY: encode_allocations(allocations)}
        # The API server rejects a key in `data` that also exists in `binaryData`.
        patch = {"metadata": {"labels": ALLOCATIONS_LABELS}, "data": data, "binaryData": None}
        # If a request got no response, it may have succeeded, so the content is unknown until another request succeeds.
        self._written = None
        try:
            await patch_or_create(self._api, self._folder, self._node, patch, self._config_map(data))
        except ApiError as exc:
            self._errors.report(str(exc), f"cannot write the observed allocations for audits: {exc}")
            return
        self._errors.clear()
        self._written, self._written_at = allocations, now

    def _config_map(self, data: Mapping[str, str]) -> dict[str, object]:
        metadata = {"name": self._node, "labels": ALLOCATIONS_LABELS}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
