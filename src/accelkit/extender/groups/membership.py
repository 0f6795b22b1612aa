"""Reads which group a pod says that it belongs to, and how large it says that the group is."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from accelkit.extender.groups.objects import GroupPod
from accelkit.kube.scheduling.pod_groups import COSCHEDULING_LABEL, NAME_LABEL

# The gate under which pods wait until their group has its cards.
GATE: Final = "accelkit.io/pod-group"
# On pods, as a label or an annotation: how many of the group have to be placed at least.
SIZE_KEY: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
LABELS: Final = frozenset({COSCHEDULING_LABEL, NAME_LABEL, SIZE_KEY})


class Convention(StrEnum):
    """By whose rules pods name their group; those with an object come first in a pod."""

    WORKLOAD = "scheduling.k8s.io"
    COSCHEDULING = "scheduling.x-k8s.io"
    LABELS = "pod-group.scheduling.sigs.k8s.io"


class GroupKey(NamedTuple):
    """A group: no pod of another namespace, or of another convention, belongs to it."""

    namespace: str
    name: str
    convention: Convention

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def read_group(pod: GroupPod) -> GroupKey | None:
    """Return the group of a pod, None where it names none."""
    namespace, labels = pod.metadata.namespace, pod.metadata.labels or {}
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return GroupKey(namespace, group.pod_group_name, Convention.WORKLOAD)
    if name := labels.get(COSCHEDULING_LABEL):
        return GroupKey(namespace, name, Convention.COSCHEDULING)
    if name := labels.get(NAME_LABEL):
        return GroupKey(namespace, name, Convention.LABELS)
    return None


def read_stated_size(pod: GroupPod) -> str | None:
    """Return what a pod says of its group's size, as it is written; None where it says nothing."""
    return (pod.metadata.labels or {}).get(SIZE_KEY) or pod.find_annotation(SIZE_KEY)


def trim_member(pod: GroupPod) -> tuple[dict[str, str], dict[str, str]] | None:
    """Take from a pod what groups do not read; return the labels and annotations that they do, None if it has no group.

    Args:
        pod: is changed.
    """
    if read_group(pod) is None:
        pod.spec.node_selector = pod.spec.affinity = pod.spec.tolerations = pod.spec.scheduling_gates = None
        return None
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    return (
        {key: labels[key] for key in LABELS & labels.keys()},
        {key: annotations[key] for key in {SIZE_KEY} & annotations.keys()},
    )
