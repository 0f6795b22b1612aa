"""Reads which group a pod says that it belongs to, and how large it says that the group is."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from accelkit.extender.groups.node_rules import encode_rules
from accelkit.extender.groups.objects import Conditions, GroupPod
from accelkit.kube.scheduling.pod_groups import COSCHEDULING_LABEL, NAME_LABEL
from accelkit.model.keys import POD_GROUP_GATE
from accelkit.texts import shorten

# On pods, as a label or an annotation: how many of the group have to be placed at least.
SIZE_KEY: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
# More digits than any size has.
_MOST_STATED: Final = 20
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
    """Return what a pod says of its group's size, as it is written but for what is far too long; None for nothing."""
    stated = (pod.metadata.labels or {}).get(SIZE_KEY) or pod.find_annotation(SIZE_KEY)
    return None if stated is None else shorten(stated, _MOST_STATED)


def read_conditions(pod: GroupPod) -> Conditions:
    """Return when and where a pod that waits may be tried."""
    spec = pod.spec
    if spec.conditions is not None:
        return spec.conditions
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    place = gates.index(POD_GROUP_GATE) if POD_GROUP_GATE in gates else -1
    return Conditions(place, any(name != POD_GROUP_GATE for name in gates), encode_rules(spec))


def trim_member(pod: GroupPod) -> tuple[dict[str, str], dict[str, str]] | None:
    """Take from a pod what groups do not read; return the labels and annotations that they do, None if it has no group.

    Lists are kept until all pods are read, and users may have filled each with megabytes.

    Args:
        pod: is changed.
    """
    spec, belongs = pod.spec, read_group(pod) is not None
    if belongs and not spec.node_name and not pod.terminal:
        spec.conditions = read_conditions(pod)
    spec.node_selector = spec.affinity = spec.tolerations = spec.scheduling_gates = None
    if not belongs:
        return None
    labels, stated = pod.metadata.labels or {}, read_stated_size(pod)
    return {key: labels[key] for key in LABELS & labels.keys()}, {} if stated is None else {SIZE_KEY: stated}
