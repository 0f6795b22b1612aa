"""What a pod asks of a node, beside amounts, that only kube-scheduler can judge."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.model.pod import Container, PodSpec

# What the API server fills, and the volume of the service account's token that every pod has, ask nothing of a node.
_HARMLESS: Final = frozenset({"name", "projected", "configMap", "secret", "emptyDir", "downwardAPI"})


class _Port(msgspec.Struct, rename="camel"):
    host_port: int = 0


class PortedContainer(Container):
    """A container, with the ports that it wants of its host."""

    ports: list[_Port] | None = None


class ConditionedSpec(PodSpec, rename="camel"):
    """spec of a pod, with what it asks of nodes beside amounts."""

    # What is written here narrows the fields of the pods that everybody reads.
    containers: list[PortedContainer] = msgspec.field(default_factory=list)  # type: ignore[assignment]
    init_containers: list[PortedContainer] | None = None  # type: ignore[assignment]
    affinity: dict[str, msgspec.Raw] | None = None
    topology_spread_constraints: list[msgspec.Raw] | None = None
    volumes: list[dict[str, msgspec.Raw]] | None = None
    resource_claims: list[msgspec.Raw] | None = None


def find_asked_resources(spec: ConditionedSpec) -> set[str]:
    """Return the names of the resources that a pod asks for."""
    return {
        name
        for each in (*spec.containers, *(spec.init_containers or ()))
        for name in (each.resources.requests or {}).keys() | (each.resources.limits or {}).keys()
    }


def list_unread_conditions(spec: ConditionedSpec, known: frozenset[str]) -> list[str]:
    """Return the names of what only kube-scheduler can judge of a pod; none where we can judge all of it.

    Args:
        spec: of the pod.
        known: names of the resources that are ours.
    """
    containers = (*spec.containers, *(spec.init_containers or ()))
    found = {
        "affinity": bool(spec.affinity),
        "topologySpreadConstraints": bool(spec.topology_spread_constraints),
        "resourceClaims": bool(spec.resource_claims),
        "volumes": any(each.keys() - _HARMLESS for each in spec.volumes or ()),
        "hostPort": any(port.host_port for each in containers for port in each.ports or ()),
        "other resources": bool(find_asked_resources(spec) - known - {"cpu", "memory"}),
    }
    return [name for name, there in found.items() if there]
