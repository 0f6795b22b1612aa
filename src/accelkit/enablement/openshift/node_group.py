"""What the nodes of a group will have, told to autoscalers that have never seen one: from zero nodes on.

An autoscaler adds a node only where it expects the waiting pod to fit it. It knows CPU and memory of an instance type,
but neither our resources, which agents advertise once the node is there, nor labels and taints that come later.
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
    """What one node of a group has; 0 and the empty text are not told.

    Attributes:
        cpu: virtual CPUs.
        memory_mib: of the machine, not of its cards.
        cards: whole cards, `accelkit.io/cards`.
        card_memory: units of `accelkit.io/memory` of all its cards together.
        vendor_cards: cards as another device plugin offers them beside ours.
        vendor_resource: the name under which it does.
    """

    cpu: Count = 0
    memory_mib: Count = 0
    cards: Count = 0
    card_memory: Count = 0
    vendor_cards: Count = 0
    vendor_resource: str = "nvidia.com/gpu"

    @property
    def resources(self) -> dict[str, int]:
        """The extended resources, by name; those for which pods of ours ask first."""
        found = {MEMORY_RESOURCE: self.card_memory, CARDS_RESOURCE: self.cards, self.vendor_resource: self.vendor_cards}
        return {name: count for name, count in found.items() if count}


class NodeGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of equal nodes: its capacity, and the labels and taints with which its nodes come."""

    capacity: Capacity = Capacity()
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()


class Autoscaler(StrEnum):
    """Whose autoscaler is told, and in which form."""

    AWS = "aws"
    AZURE = "azure"
    GCE = "gce"
    CLUSTER_API = "cluster-api"
    MACHINE_API = "machine-api"


def read_node_group(given: Mapping[str, object]) -> NodeGroup:
    """Read a group as users write it.

    Raises:
        ConfigurationError: a key is unknown, or a value is of another type or negative.
    """
    try:
        return msgspec.convert(given, NodeGroup, strict=False)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(
            f"the group of nodes is wrong: {exc}", next_step="its keys are capacity, labels and taints"
        ) from exc


def write_hints(group: NodeGroup, autoscaler: Autoscaler) -> dict[str, str]:
    """Return what is written on the group, by name: tags, annotations, or variables of the node's environment."""
    match autoscaler:
        case Autoscaler.AWS:
            return {f"{_AWS}/{key}": each for key, each in _list_tags(group).items()}
        case Autoscaler.AZURE:
            # Names of tags have no slash there.
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
    # It has room for one extended resource: that for which shares are asked, else the first that there is.
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
    # OpenShift's autoscaler is that of the Cluster API, with annotations of its own for what it reads anew.
    further = {
        key: each for key, each in _write_cluster_api(group).items() if key.rpartition("/")[2] not in {"cpu", "memory"}
    }
    return {**{key: str(each) for key, each in found.items() if each}, **further}
