"""In which unit a node advertises memory while the cluster's unit changes.

What a container holds at its kubelet is a number of device IDs, each worth the unit of the day it was allocated. So:

- A finer unit only adds IDs. It applies at once, except while a pod of the old unit is between its Binding and its
  admission: the kubelet would ask for its number of devices in the new unit.
- A coarser unit takes IDs away that containers hold, and a kubelet does not admit a pod again whose devices are gone.
  So it waits for the pods of finer units.
- Where a container holds devices and no assignment says how much that is, or the kubelet cannot be asked, the unit
  stays.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from accelkit.node.assigned_pod import AssignedPod

PodName = tuple[str, str]  # namespace, name


def unit_to_advertise(
    told: int, present: int | None, pods: Sequence[AssignedPod], holders: Collection[PodName] | None
) -> int:
    """Return the unit to advertise now, in bytes.

    Args:
        told: the cluster's unit.
        present: what the node advertises; None where that is not known.
        pods: this node's pods with their assignments.
        holders: the pods that hold devices of memory, as the kubelet says; None where it does not.
    """
    sharing = [pod for pod in pods if pod.unit_bytes]
    finest = min((unit for pod in sharing for unit in pod.unit_bytes), default=told)
    if present is None:
        present = finest
    unclear = holders is None or set(holders) - {(pod.namespace, pod.name) for pod in sharing}
    if told == present or unclear or any(not pod.admitted for pod in sharing):
        return present
    return min(told, finest)
