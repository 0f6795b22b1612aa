"""The Node object of a simulated node: who it is, what it has, that it is alive."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from accelkit import __version__
from accelkit.sandbox.kubelet.devices.device_values import NodeResources
from accelkit.sandbox.kubelet.pods.processes import NODE_ADDRESS
from accelkit.sandbox.nodes import PRESENT_LABEL, NodeSpec

__all__ = ["NodeStatus", "node_labels", "node_object"]

_HEARTBEAT_SECONDS = 300.0
_EPHEMERAL_STORAGE = "100Gi"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_VERSION = "v1.34.4"


def node_labels(spec: NodeSpec) -> dict[str, str]:
    """The labels the node registers with; those of its specification win."""
    arch = _architecture()
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": arch,
        "node.kubernetes.io/instance-type": "simulated",
    }
    if spec.cards:
        labels[PRESENT_LABEL] = "true"
    return {**labels, **spec.labels}


def node_object(spec: NodeSpec) -> dict[str, Any]:
    """The Node as it is created; its status comes afterwards."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": node_labels(spec)},
        "spec": {"providerID": f"simulated://{spec.name}"},
    }


class NodeStatus:
    """Builds status patches that name our own keys only.

    A resource that is removed is written as 0 until that has arrived, and not again: whoever deletes its key from the
    node afterwards does not get it back.

    Args:
        now: the time as RFC 3339 text.
        clock: seconds that only grow.
    """

    def __init__(self, spec: NodeSpec, *, now: Callable[[], str], clock: Callable[[], float]) -> None:
        self._spec = spec
        self._now = now
        self._clock = clock
        self._since = now()
        self._heartbeat = (clock(), self._since)
        self._removed: set[str] = set()

    def patch(self, resources: NodeResources) -> dict[str, Any]:
        """The merge patch of the node's status subresource."""
        self._removed |= resources.removed
        self._removed -= resources.capacity.keys()
        own = {
            "cpu": str(self._spec.cpu),
            "memory": str(self._spec.memory_bytes),
            "pods": str(self._spec.pods),
            "ephemeral-storage": _EPHEMERAL_STORAGE,
            **dict.fromkeys(sorted(self._removed), "0"),
        }
        status = {
            "capacity": own | _texts(resources.capacity),
            "allocatable": own | _texts(resources.allocatable),
            "conditions": self._conditions(),
            "addresses": [
                {"type": "InternalIP", "address": NODE_ADDRESS},
                {"type": "Hostname", "address": self._spec.name},
            ],
            "nodeInfo": _node_info(self._spec.name),
        }
        return {"status": status}

    def written(self, patch: Mapping[str, Any]) -> None:
        """A patch has arrived: what it set to 0 as removed is not mentioned again."""
        self._removed -= patch["status"]["capacity"].keys()

    def _conditions(self) -> list[dict[str, str]]:
        # An unchanged patch changes nothing on the API server, so heartbeats are rare, as the real kubelet's are.
        if self._clock() - self._heartbeat[0] >= _HEARTBEAT_SECONDS:
            self._heartbeat = (self._clock(), self._now())
        good = {
            "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            "Ready": ("True", "KubeletReady", "simulated kubelet is ready"),
        }
        times = {"lastHeartbeatTime": self._heartbeat[1], "lastTransitionTime": self._since}
        return [
            {"type": kind, "status": status, "reason": reason, "message": message, **times}
            for kind, (status, reason, message) in good.items()
        ]


def _texts(numbers: Mapping[str, int]) -> dict[str, str]:
    return {resource: str(number) for resource, number in sorted(numbers.items())}


def _node_info(name: str) -> dict[str, str]:
    # Stable for a name, as the identities of a machine are.
    identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.simulated"))
    return {
        "architecture": _architecture(),
        "bootID": identity,
        "containerRuntimeVersion": f"simulated://{__version__}",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": _VERSION,
        "machineID": identity.replace("-", ""),
        "operatingSystem": "linux",
        "osImage": "accelkit simulated node",
        "systemUUID": identity,
    }


def _architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())
