"""Machine sets with cards, which are derived from an existing set. Only the differences are configured.

A MachineSet contains an image, a network and credentials that are specific to the cluster, so it cannot be written from
scratch.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from accelkit.enablement.openshift.node_group import Autoscaler, Capacity, Count, NodeGroup, Taint, write_hints
from accelkit.errors import ConfigurationError

MACHINE_API: Final = "machine.openshift.io/v1beta1"
_SET_LABEL: Final = "machine.openshift.io/cluster-api-machineset"
_ACCELERATOR_LABEL: Final = "cluster-api/accelerator"
# The field that contains the instance type, by cloud provider.
_TYPE_FIELDS: Final = {
    "AWSMachineProviderConfig": "instanceType",
    "AzureMachineProviderSpec": "vmSize",
    "GCPMachineProviderSpec": "machineType",
}
# Prefixes of the annotations that a controller writes for the instance type of the source set.
_FORMER_HINTS: Final = ("machine.openshift.io/", "capacity.cluster-autoscaler.kubernetes.io/")


class Scaling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The minimum and maximum number of machines for the autoscaler."""

    min: Count
    max: Count


class DesiredMachineSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A machine set as specified by the user.

    Attributes:
        name: the name of the new set.
        source: the name of the set from which it is derived.
        replicas: the number of machines if no autoscaler is used.
        autoscale: the bounds for an autoscaler; None if no autoscaler is used.
        instance_type: the cloud provider's name for the instance type; empty for the instance type of the source.
        instance_type_field: the path of the field that contains the instance type, such as `a.b`; required for an
            unknown provider.
        provider_spec: the values to merge into the provider spec of the source; a null value removes a field.
        accelerator: the name under which a ClusterAutoscaler limits the number of cards in these machines; empty for
            none.
        capacity: the capacity of each node in the set.
        labels: the initial labels of the nodes.
        taints: the initial taints of the nodes.
    """

    name: str
    source: str
    replicas: Count = 0
    autoscale: Scaling | None = None
    instance_type: str = ""
    instance_type_field: str = ""
    provider_spec: dict[str, Any] = {}
    accelerator: str = ""
    capacity: Capacity = Capacity()
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()

    @property
    def group(self) -> NodeGroup:
        """The description of the future nodes for an autoscaler."""
        return NodeGroup(self.capacity, self.labels, self.taints)


def read_desired_machine_sets(given: Sequence[Mapping[str, object]]) -> list[DesiredMachineSet]:
    """Return the machine sets that the user specified.

    Raises:
        ConfigurationError: a key is unknown, a value is invalid, or two sets have the same name.
    """
    try:
        desired = msgspec.convert(given, list[DesiredMachineSet], strict=False)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(
            f"cannot read openshift_machine_sets: {exc}", next_step="see docs/how-to/openshift.md for the valid keys"
        ) from exc
    names = [each.name for each in desired]
    for each in desired:
        if names.count(each.name) > 1 or each.name == each.source:
            raise ConfigurationError(f"openshift_machine_sets: {each.name} is also the name of another set")
        if each.autoscale and each.autoscale.min > each.autoscale.max:
            raise ConfigurationError(f"openshift_machine_sets: the minimum of {each.name} is above its maximum")
    return desired


def derive_machine_set(
    desired: DesiredMachineSet, existing: Mapping[str, Mapping[str, Any]], labels: Mapping[str, str]
) -> dict[str, Any]:
    """Return the new MachineSet.

    Args:
        desired: the desired set.
        existing: the MachineSets of the cluster, by name.
        labels: the labels of accelkit's objects.

    Raises:
        ConfigurationError: the source does not exist, the name is in use, or the cloud provider's field is unknown.
    """
    source, present = existing.get(desired.source), existing.get(desired.name)
    if source is None:
        raise ConfigurationError(
            f"cannot derive {desired.name}: no MachineSet has the name {desired.source}",
            next_step=f"choose one of these: {', '.join(sorted(existing)) or 'none'}",
        )
    if present is not None and not labels.items() <= (present["metadata"].get("labels") or {}).items():
        raise ConfigurationError(
            f"cannot apply MachineSet {desired.name}: it already exists, and accelkit did not create it",
            next_step="choose another name",
        )
    spec = copy.deepcopy(dict(source["spec"]))
    template = spec["template"]
    for table in (spec["selector"].setdefault("matchLabels", {}), template["metadata"].setdefault("labels", {})):
        table[_SET_LABEL] = desired.name
    template["spec"] = _change_machine(template["spec"], desired)
    hints = write_hints(desired.group, Autoscaler.MACHINE_API)
    annotations = {
        key: each
        for key, each in (source["metadata"].get("annotations") or {}).items()
        if not key.startswith(_FORMER_HINTS) and key.partition("/")[0] != "kubectl.kubernetes.io"
    }
    own = {key: each for key, each in (source["metadata"].get("labels") or {}).items() if "kubernetes.io/" not in key}
    return {
        "apiVersion": MACHINE_API,
        "kind": "MachineSet",
        "metadata": {
            "name": desired.name,
            "namespace": source["metadata"]["namespace"],
            "labels": {**own, **labels},
            "annotations": {**annotations, **hints},
        },
        "spec": {**spec, "replicas": _count_replicas(desired, present)},
    }


def _count_replicas(desired: DesiredMachineSet, present: Mapping[str, Any] | None) -> int:
    """Return the number of machines in the set. A number set by an autoscaler is limited to the autoscaler's bounds."""
    if desired.autoscale is None:
        return desired.replicas
    chosen = int((present or {}).get("spec", {}).get("replicas") or 0)
    return min(max(chosen, desired.autoscale.min), desired.autoscale.max)


def _change_machine(machine: Mapping[str, Any], desired: DesiredMachineSet) -> dict[str, Any]:
    changed = dict(machine)
    value = changed.get("providerSpec", {}).get("value", {})
    patched = _merge(value, desired.provider_spec)
    if desired.instance_type:
        name = desired.instance_type_field or _TYPE_FIELDS.get(value.get("kind", ""), "")
        if not name:
            raise ConfigurationError(
                f"cannot set the instance type: {desired.source} has the provider {value.get('kind', 'unknown')}, "
                "whose field for the instance type is unknown",
                next_step=f"set instance_type_field of {desired.name}",
            )
        patched = _merge(patched, _nest(name.split("."), desired.instance_type))
    changed["providerSpec"] = {**changed.get("providerSpec", {}), "value": patched}
    metadata = dict(changed.get("metadata", {}))
    new_labels = {**desired.labels, **({_ACCELERATOR_LABEL: desired.accelerator} if desired.accelerator else {})}
    if new_labels:
        metadata["labels"] = {**metadata.get("labels", {}), **new_labels}
    changed["metadata"] = metadata
    if desired.taints:
        kept = [each for each in changed.get("taints", []) if each["key"] not in {one.key for one in desired.taints}]
        changed["taints"] = [*kept, *(_write_taint(each.key, each.value, each.effect) for each in desired.taints)]
    return changed


def _write_taint(key: str, value: str, effect: str) -> dict[str, str]:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _nest(path: Sequence[str], value: object) -> dict[str, Any]:
    return {path[0]: _nest(path[1:], value) if path[1:] else value}


def _merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a merge patch: objects are merged, null values remove fields, other values are replaced."""
    merged = {key: each for key, each in one.items() if key not in other}
    for key, each in other.items():
        if isinstance(each, Mapping):
            below = one.get(key)
            merged[key] = _merge(below if isinstance(below, Mapping) else {}, each)
        elif each is not None:
            merged[key] = each
    return merged
