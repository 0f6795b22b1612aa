"""Objects that OpenShift's operator uses to scale machine sets: one for each set, and one for the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from accelkit.enablement.openshift.machine_sets import MACHINE_API, DesiredMachineSet, derive_machine_set

# The operator reads only the ClusterAutoscaler with this name.
_CLUSTER_AUTOSCALER: Final = "default"


def write_machine_objects(
    desired: Sequence[DesiredMachineSet],
    existing: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str],
    cluster_autoscaler: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return MachineSets, their MachineAutoscalers and the ClusterAutoscaler, in the order of application.

    Args:
        desired: the desired sets.
        existing: the MachineSets of the cluster.
        labels: the labels of the objects.
        cluster_autoscaler: the specification of the ClusterAutoscaler; empty if no ClusterAutoscaler is written.

    Raises:
        ConfigurationError: a set cannot be created as desired.
    """
    by_name = {each["metadata"]["name"]: each for each in existing}
    objects = [derive_machine_set(each, by_name, labels) for each in desired]
    objects += [_write_autoscaler(each, by_name[each.source], labels) for each in desired if each.autoscale]
    if cluster_autoscaler:
        objects.append(
            {
                "apiVersion": "autoscaling.openshift.io/v1",
                "kind": "ClusterAutoscaler",
                "metadata": {"name": _CLUSTER_AUTOSCALER, "labels": dict(labels)},
                "spec": dict(cluster_autoscaler),
            }
        )
    return objects


def _write_autoscaler(
    desired: DesiredMachineSet, source: Mapping[str, Any], labels: Mapping[str, str]
) -> dict[str, Any]:
    bounds = desired.autoscale
    return {
        "apiVersion": "autoscaling.openshift.io/v1beta1",
        "kind": "MachineAutoscaler",
        "metadata": {"name": desired.name, "namespace": source["metadata"]["namespace"], "labels": dict(labels)},
        "spec": {
            "minReplicas": bounds.min if bounds else 0,
            "maxReplicas": bounds.max if bounds else 0,
            "scaleTargetRef": {"apiVersion": MACHINE_API, "kind": "MachineSet", "name": desired.name},
        },
    }
