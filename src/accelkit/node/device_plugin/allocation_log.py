"""Logs what the kubelet was offered, given and refused: one line each, by which a pod is found again by its UID."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from accelkit.errors import DevicePluginError
from accelkit.logs import Facts, RepeatLog
from accelkit.node.assigned_pod import AssignedPod, Key
from accelkit.node.devices import DeviceIds

log = logging.getLogger(__name__)


class AllocationLog:
    """Logs the allocations of one resource; what repeats within a minute is counted.

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
        """Log devices that a container was offered or given.

        Args:
            event: what happened.
            key: who probably gets them; None where that is not known.
            pods: this node's pods.
            device_ids: the devices.
            ids: by which their cards are found.
            unit_bytes: what one of them is worth; None where each is a whole card.
            seconds: how long the answer took.
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

        # The devices themselves may be 100,000 names, and thousands of keys are remembered.
        self._repeats.info((event, key, hash(frozenset(device_ids))), make)

    def note_refusal(self, device_ids: Sequence[str], error: DevicePluginError) -> None:
        """Log devices that the kubelet chose and that no container is given."""
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
