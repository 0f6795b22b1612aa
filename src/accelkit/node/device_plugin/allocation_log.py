"""Log of offered, allocated and rejected devices. Each line contains the UID of the pod."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from accelkit.errors import DevicePluginError
from accelkit.logs import Facts, RepeatLog
from accelkit.node.assigned_pod import AssignedPod, Key
from accelkit.node.devices import DeviceIds

log = logging.getLogger(__name__)


class AllocationLog:
    """Log of the allocations of one resource. A line that is repeated within one minute is counted, but not logged.

    Args:
        resource: the extended resource.
    """

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._repeats = RepeatLog(log)

    def note(
        self,
        event: str,
        key: Key | None,
        pods: Sequence[AssignedPod],
        device_ids: Sequence[str],
        *,
        ids: DeviceIds,
        unit_bytes: int | None,
        seconds: float,
    ) -> None:
        """Log the devices that were offered or allocated to a container.

        Args:
            event: `offered` or `allocated`.
            key: the container that probably gets the devices; None if it is unknown.
            pods: the pods of this node.
            device_ids: the IDs of the devices.
            ids: the device IDs of the node's cards.
            unit_bytes: the memory of one device; None if each device is a whole card.
            seconds: the duration of the request.
        """

        def make() -> Facts:
            counts = sorted(ids.count_by_card(device_ids).items())
            return Facts(
                event,
                **_name_container(key, pods),
                resource=self._resource,
                cards=[card for card, _ in counts] if unit_bytes is None else {c: n * unit_bytes for c, n in counts},
                devices=len(device_ids),
                first_device=min(device_ids, key=lambda each: (len(each), each), default=""),
                seconds=seconds,
            )

        # The key contains a hash, because there may be 100,000 device IDs and the log stores thousands of keys.
        self._repeats.info((event, key, hash(frozenset(device_ids))), make)

    def note_refusal(self, device_ids: Sequence[str], error: DevicePluginError) -> None:
        """Log the devices that the kubelet chose but the plugin rejected."""
        self._repeats.info(
            hash(str(error)),
            lambda: Facts("allocation refused", resource=self._resource, devices=len(device_ids), reason=str(error)),
        )


def _name_container(key: Key | None, pods: Sequence[AssignedPod]) -> dict[str, str | None]:
    if key is None:
        return {"pod": None, "uid": None, "container": None}
    uid, container = key
    pod = next((f"{pod.namespace}/{pod.name}" for pod in pods if pod.uid == uid), None)
    return {"pod": pod, "uid": uid, "container": container}
