"""Labels and fields that declare the group of a pod, in all supported conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from accelkit.kube.views.scheduling import SchedulingGroup

# The label that is used by the coscheduling plugin and by schedulers without a group object.
COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
NAME_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/name"


def names_group(labels: Mapping[str, str], group: SchedulingGroup | None) -> bool:
    """Return whether a pod with these labels and this `spec.schedulingGroup` declares that it belongs to a group."""
    if group is not None and group.pod_group_name:
        return True
    return any(labels.get(key) for key in (COSCHEDULING_LABEL, NAME_LABEL))
