"""Pod requirements for nodes that only kube-scheduler can evaluate, except resource amounts."""

from __future__ import annotations

from typing import Final

from accelkit.kube.views.scheduling import ConditionedSpec

# These volumes do not restrict the choice of nodes, because all nodes can provide them.
_UNRESTRICTED_VOLUMES: Final = frozenset({"name", "projected", "configMap", "secret", "emptyDir", "downwardAPI"})


def find_requested_resources(spec: ConditionedSpec) -> set[str]:
    """Return the names of the resources that a pod requests."""
    return {
        name
        for each in (*spec.containers, *(spec.init_containers or ()))
        for name in (each.resources.requests or {}).keys() | (each.resources.limits or {}).keys()
    }


def list_unread_conditions(spec: ConditionedSpec, known: frozenset[str]) -> list[str]:
    """Return the names of the requirements that only kube-scheduler can evaluate; empty if there are none.

    Args:
        spec: the spec of the pod.
        known: the names of the resources that accelkit manages.
    """
    containers = (*spec.containers, *(spec.init_containers or ()))
    found = {
        "affinity": bool(spec.affinity),
        "topologySpreadConstraints": bool(spec.topology_spread_constraints),
        "resourceClaims": bool(spec.resource_claims),
        "volumes": any(each.keys() - _UNRESTRICTED_VOLUMES for each in spec.volumes or ()),
        "hostPort": any(port.host_port for each in containers for port in each.ports or ()),
        "other resources": bool(find_requested_resources(spec) - known - {"cpu", "memory"}),
    }
    return [name for name, present in found.items() if present]
