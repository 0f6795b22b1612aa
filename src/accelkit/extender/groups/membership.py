"""Functions that read the group of a pod and the group size that the pod specifies."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from accelkit.kube.scheduling.allowed_nodes import encode_rules
from accelkit.kube.scheduling.pod_groups import COSCHEDULING_LABEL, NAME_LABEL
from accelkit.kube.views.scheduling import Conditions, SchedulingPod
from accelkit.model.keys import POD_GROUP_GATE
from accelkit.texts import shorten

# Label or annotation of a pod that specifies the minimum number of pods of its group to place.
SIZE_KEY: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
# Longer than any valid size.
_MOST_STATED: Final = 20
LABELS: Final = frozenset({COSCHEDULING_LABEL, NAME_LABEL, SIZE_KEY})


class Convention(StrEnum):
    """Conventions for naming the group of a pod; conventions with a PodGroup object take precedence."""

    WORKLOAD = "scheduling.k8s.io"
    COSCHEDULING = "scheduling.x-k8s.io"
    LABELS = "pod-group.scheduling.sigs.k8s.io"


class GroupKey(NamedTuple):
    """Key of a group; all pods of a group use the same convention in the same namespace."""

    namespace: str
    name: str
    convention: Convention

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def read_group(pod: SchedulingPod) -> GroupKey | None:
    """Return the group of a pod; None if the pod does not specify a group."""
    namespace, labels = pod.metadata.namespace, pod.metadata.labels or {}
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return GroupKey(namespace, group.pod_group_name, Convention.WORKLOAD)
    if name := labels.get(COSCHEDULING_LABEL):
        return GroupKey(namespace, name, Convention.COSCHEDULING)
    if name := labels.get(NAME_LABEL):
        return GroupKey(namespace, name, Convention.LABELS)
    return None


def read_stated_size(pod: SchedulingPod) -> str | None:
    """Return the group size that a pod specifies, truncated if the text is too long; None if there is no size."""
    stated = (pod.metadata.labels or {}).get(SIZE_KEY) or pod.find_annotation(SIZE_KEY)
    return None if stated is None else shorten(stated, _MOST_STATED)


def read_conditions(pod: SchedulingPod) -> Conditions:
    """Return the gates and the node rules of a waiting pod, which decide whether kube-scheduler tries it."""
    spec = pod.spec
    if spec.conditions is not None:
        return spec.conditions
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    place = gates.index(POD_GROUP_GATE) if POD_GROUP_GATE in gates else -1
    return Conditions(place, any(name != POD_GROUP_GATE for name in gates), encode_rules(spec))


def trim_member(pod: SchedulingPod) -> tuple[dict[str, str], dict[str, str]] | None:
    """Remove the fields that groups do not read; return the labels and annotations that groups read.

    Return None for a pod without a group. Removing the fields saves memory, because lists are stored until all pods are
    read, and users may have filled each field with megabytes of data.

    Args:
        pod: the pod, which is modified.
    """
    spec, belongs = pod.spec, read_group(pod) is not None
    if belongs and not spec.node_name and not pod.terminal:
        spec.conditions = read_conditions(pod)
    spec.node_selector = spec.affinity = spec.tolerations = spec.scheduling_gates = None
    if not belongs:
        return None
    labels, stated = pod.metadata.labels or {}, read_stated_size(pod)
    return {key: labels[key] for key in LABELS & labels.keys()}, {} if stated is None else {SIZE_KEY: stated}
