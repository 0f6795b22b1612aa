"""Description of a group's future nodes for autoscalers, so that the group can be scaled up from zero nodes.

An autoscaler adds a node only if it expects the pending pod to fit. It can derive CPU and
memory from the instance type, but not accelkit's resources, or labels and taints that are added later.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from accelkit.errors import ConfigurationError
from accelkit.model.keys import CARDS_RESOURCE, MEMORY_RESOURCE

Count = Annotated[int, msgspec.Meta(ge=0)]
_AWS: Final = "k8s.io/cluster-autoscaler/node-template"
_AZURE: Final = "k8s.io_cluster-autoscaler_node-template"
_CLUSTER_API: Final = "capacity.cluster-autoscaler.kubernetes.io"
_MACHINE_API: Final = "machine.openshift.io"


class Taint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Capacity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The capacity of one node of a group; 0 and empty values are omitted.

    Attributes:
        cpu: the number of virtual CPUs.
        memory_mib: the memory of the machine in MiB, excluding the memory of cards.
        cards: the number of whole cards, `accelkit.io/cards`.
        card_memory: the number of units of `accelkit.io/memory` on all cards together.
        vendor_cards: the number of cards that another device plugin offers in addition.
        vendor_resource: the name of the resource that the other device plugin offers.
    """

    cpu: Count = 0
    memory_mib: Count = 0
    cards: Count = 0
    card_memory: Count = 0
    vendor_cards: Count = 0
    vendor_resource: str = "nvidia.com/gpu"

    @property
    def resources(self) -> dict[str, int]:
        """The extended resources by name; resources that pods most often request are first."""
        found = {MEMORY_RESOURCE: self.card_memory, CARDS_RESOURCE: self.cards, self.vendor_resource: self.vendor_cards}
        return {name: count for name, count in found.items() if count}


class NodeGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of equal nodes, with the capacity and the initial labels and taints of each node."""

    capacity: Capacity = Capacity()
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()


class Autoscaler(StrEnum):
    """The supported autoscalers, each with a different format."""

    AWS = "aws"
    AZURE = "azure"
    GCE = "gce"
    CLUSTER_API = "cluster-api"
    MACHINE_API = "machine-api"


def read_node_group(given: Mapping[str, object]) -> NodeGroup:
    """Return a node group that the user specified.

    Raises:
        ConfigurationError: a key is unknown, or a value has the wrong type or is negative.
    """
    try:
        return msgspec.convert(given, NodeGroup, strict=False)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(
            f"cannot read the node group: {exc}", next_step="use only the keys capacity, labels and taints"
        ) from exc


def write_hints(group: NodeGroup, autoscaler: Autoscaler) -> dict[str, str]:
    """Return the tags, annotations or environment variables that describe the group to an autoscaler, by name."""
    match autoscaler:
        case Autoscaler.AWS:
            return {f"{_AWS}/{key}": each for key, each in _list_tags(group).items()}
        case Autoscaler.AZURE:
            # Azure tag names must not contain slashes.
            return {f"{_AZURE}_{key.replace('/', '_')}": each for key, each in _list_tags(group).items()}
        case Autoscaler.GCE:
            return _write_environment(group)
        case Autoscaler.CLUSTER_API:
            return _write_cluster_api(group)
        case Autoscaler.MACHINE_API:
            return _write_machine_api(group)


def _list_tags(group: NodeGroup) -> dict[str, str]:
    resources = {f"resources/{name}": str(count) for name, count in group.capacity.resources.items()}
    labels = {f"label/{key}": each for key, each in sorted(group.labels.items())}
    return {**resources, **labels, **{f"taint/{each.key}": f"{each.value}:{each.effect}" for each in group.taints}}


def _write_environment(group: NodeGroup) -> dict[str, str]:
    resources = ",".join(f"{name}={count}" for name, count in group.capacity.resources.items())
    labels = ",".join(f"{key}={each}" for key, each in sorted(group.labels.items()))
    taints = ",".join(str(each) for each in group.taints)
    parts = {"node_labels": labels, "node_taints": taints, "extended_resources": resources}
    return {"AUTOSCALER_ENV_VARS": ";".join(f"{key}={each}" for key, each in parts.items() if each)}


def _write_cluster_api(group: NodeGroup) -> dict[str, str]:
    # Only one extended resource is possible. Use the memory that shares request, or otherwise the first resource.
    first = next(iter(group.capacity.resources.items()), None)
    found = {
        "cpu": str(group.capacity.cpu or ""),
        "memory": f"{group.capacity.memory_mib}Mi" if group.capacity.memory_mib else "",
        "gpu-type": first[0] if first else "",
        "gpu-count": str(first[1]) if first else "",
        "labels": ",".join(f"{key}={each}" for key, each in sorted(group.labels.items())),
        "taints": ",".join(str(each) for each in group.taints),
    }
    return {f"{_CLUSTER_API}/{key}": each for key, each in found.items() if each}


def _write_machine_api(group: NodeGroup) -> dict[str, str]:
    capacity = group.capacity
    found = {
        f"{_MACHINE_API}/vCPU": capacity.cpu,
        f"{_MACHINE_API}/memoryMb": capacity.memory_mib,
        f"{_MACHINE_API}/GPU": capacity.vendor_cards,
    }
    # OpenShift's autoscaler is the Cluster API autoscaler with different annotations for some of the values.
    further = {
        key: each for key, each in _write_cluster_api(group).items() if key.rpartition("/")[2] not in {"cpu", "memory"}
    }
    return {**{key: str(each) for key, each in found.items() if each}, **further}
