"""Sets of machines with cards, made after one that is there: only what differs is said.

A MachineSet names an image, a network and a log-in that only its cluster knows, so nobody writes one from nothing.
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
# Where each cloud's provider names the type of its instances.
_TYPE_FIELDS: Final = {
    "AWSMachineProviderConfig": "instanceType",
    "AzureMachineProviderSpec": "vmSize",
    "GCPMachineProviderSpec": "machineType",
}
# What a controller writes for the instance type of the set that was copied.
_FORMER_HINTS: Final = ("machine.openshift.io/", "capacity.cluster-autoscaler.kubernetes.io/")


class Scaling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Between how many machines the autoscaler may choose."""

    min: Count
    max: Count


class DesiredMachineSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A set of machines as users ask for it.

    Attributes:
        name: of the new set.
        source: name of the set that it is made after.
        replicas: how many machines, where no autoscaler decides.
        autoscale: where one does.
        instance_type: in the words of the cloud; empty for that of the source.
        instance_type_field: where the provider is none of the known ones, the field that names it, as `a.b`.
        provider_spec: merged into that of the source; a value that is null is taken out.
        accelerator: name under which a ClusterAutoscaler bounds the cards of such machines; empty for none.
        capacity: of each of its nodes.
        labels: with which the nodes come.
        taints: with which they come.
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
        """What an autoscaler is told of the nodes."""
        return NodeGroup(self.capacity, self.labels, self.taints)


def read_wishes(given: Sequence[Mapping[str, object]]) -> list[DesiredMachineSet]:
    """Read sets as users write them.

    Raises:
        ConfigurationError: a key is unknown, a value is wrong, or two sets have one name.
    """
    try:
        wishes = msgspec.convert(given, list[DesiredMachineSet], strict=False)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(
            f"openshift_machine_sets is wrong: {exc}", next_step="docs/openshift.md names its keys"
        ) from exc
    names = [each.name for each in wishes]
    for each in wishes:
        if names.count(each.name) > 1 or each.name == each.source:
            raise ConfigurationError(f"openshift_machine_sets: {each.name} is the name of another set, too")
        if each.autoscale and each.autoscale.min > each.autoscale.max:
            raise ConfigurationError(f"openshift_machine_sets: {each.name} has a least number above its greatest")
    return wishes


def derive_machine_set(
    wish: DesiredMachineSet, existing: Mapping[str, Mapping[str, Any]], labels: Mapping[str, str]
) -> dict[str, Any]:
    """Return the new MachineSet.

    Args:
        wish: what is asked for.
        existing: the MachineSets of the cluster, by name.
        labels: those of our objects.

    Raises:
        ConfigurationError: the source is not there, a set of others has the name, or the cloud's field is not known.
    """
    source, present = existing.get(wish.source), existing.get(wish.name)
    if source is None:
        raise ConfigurationError(
            f"there is no MachineSet {wish.source}, after which {wish.name} would be made",
            next_step=f"name one of {', '.join(sorted(existing)) or 'none'}",
        )
    if present is not None and not labels.items() <= (present["metadata"].get("labels") or {}).items():
        raise ConfigurationError(
            f"the MachineSet {wish.name} is there, and is not ours", next_step="choose another name"
        )
    spec = copy.deepcopy(dict(source["spec"]))
    template = spec["template"]
    for place in (spec["selector"].setdefault("matchLabels", {}), template["metadata"].setdefault("labels", {})):
        place[_SET_LABEL] = wish.name
    template["spec"] = _change_machine(template["spec"], wish)
    hints = write_hints(wish.group, Autoscaler.MACHINE_API)
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
            "name": wish.name,
            "namespace": source["metadata"]["namespace"],
            "labels": {**own, **labels},
            "annotations": {**annotations, **hints},
        },
        "spec": {**spec, "replicas": _count_replicas(wish, present)},
    }


def _count_replicas(wish: DesiredMachineSet, present: Mapping[str, Any] | None) -> int:
    """Return how many machines the set has: where an autoscaler decides, as many as it chose, within its bounds."""
    if wish.autoscale is None:
        return wish.replicas
    chosen = int((present or {}).get("spec", {}).get("replicas") or 0)
    return min(max(chosen, wish.autoscale.min), wish.autoscale.max)


def _change_machine(machine: Mapping[str, Any], wish: DesiredMachineSet) -> dict[str, Any]:
    changed = dict(machine)
    value = changed.get("providerSpec", {}).get("value", {})
    patched = _merge(value, wish.provider_spec)
    if wish.instance_type:
        name = wish.instance_type_field or _TYPE_FIELDS.get(value.get("kind", ""), "")
        if not name:
            raise ConfigurationError(
                f"{wish.source} is of the provider {value.get('kind', 'unknown')}, whose field for the type of an "
                "instance is not known",
                next_step=f"name it as instance_type_field of {wish.name}",
            )
        patched = _merge(patched, _nest(name.split("."), wish.instance_type))
    changed["providerSpec"] = {**changed.get("providerSpec", {}), "value": patched}
    metadata = dict(changed.get("metadata", {}))
    wanted = {**wish.labels, **({_ACCELERATOR_LABEL: wish.accelerator} if wish.accelerator else {})}
    if wanted:
        metadata["labels"] = {**metadata.get("labels", {}), **wanted}
    changed["metadata"] = metadata
    if wish.taints:
        kept = [each for each in changed.get("taints", []) if each["key"] not in {one.key for one in wish.taints}]
        changed["taints"] = [*kept, *(_write_taint(each.key, each.value, each.effect) for each in wish.taints)]
    return changed


def _write_taint(key: str, value: str, effect: str) -> dict[str, str]:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _nest(path: Sequence[str], value: object) -> dict[str, Any]:
    return {path[0]: _nest(path[1:], value) if path[1:] else value}


def _merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a merge patch's result: objects are merged, what is null goes, all else is replaced."""
    merged = {key: each for key, each in one.items() if key not in other}
    for key, each in other.items():
        if isinstance(each, Mapping):
            below = one.get(key)
            merged[key] = _merge(below if isinstance(below, Mapping) else {}, each)
        elif each is not None:
            merged[key] = each
    return merged
