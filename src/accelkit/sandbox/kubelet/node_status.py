"""The Node object of a simulated node, and the node status that its kubelet writes."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from accelkit import __version__
from accelkit.sandbox.kubelet.devices.device_values import NodeResources
from accelkit.sandbox.kubelet.pods.processes import NODE_ADDRESS
from accelkit.sandbox.nodes import PRESENT_LABEL, NodeSpec

__all__ = ["NodeStatusBuilder", "build_node", "build_node_labels"]

_HEARTBEAT_SECONDS = 300.0
_EPHEMERAL_STORAGE = "100Gi"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_VERSION = "v1.34.4"


def build_node_labels(spec: NodeSpec) -> dict[str, str]:
    """Return the labels for the registration of a node. Labels in its specification take precedence."""
    arch = _read_architecture()
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


def build_node(spec: NodeSpec) -> dict[str, Any]:
    """Return the Node object to create. Its status is written in a separate request."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": build_node_labels(spec)},
        "spec": {"providerID": f"simulated://{spec.name}"},
    }


class NodeStatusBuilder:
    """Builder of status patches that contain only the kubelet's keys.

    A removed resource is written as 0 until a patch that contains it succeeds. Later patches omit the resource, so that
    a client can permanently delete its key from the node.

    Args:
        now: a function that returns the time in UTC, in whole seconds.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, spec: NodeSpec, *, now: Callable[[], datetime], clock: Callable[[], float]) -> None:
        self._spec = spec
        self._now = now
        self._clock = clock
        self._since = now()
        self._heartbeat = (clock(), self._since)
        self._removed: set[str] = set()

    def build_patch(self, resources: NodeResources) -> dict[str, Any]:
        """Return the merge patch for the node's status subresource."""
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
            "capacity": own | _format_numbers(resources.capacity),
            "allocatable": own | _format_numbers(resources.allocatable),
            "conditions": self._build_conditions(),
            "addresses": [
                {"type": "InternalIP", "address": NODE_ADDRESS},
                {"type": "Hostname", "address": self._spec.name},
            ],
            "nodeInfo": _build_node_info(self._spec),
        }
        return {"status": status}

    def acknowledge(self, patch: Mapping[str, Any]) -> None:
        """Record that a patch succeeded, so that later patches omit the removed resources."""
        self._removed -= patch["status"]["capacity"].keys()

    def _build_conditions(self) -> list[dict[str, str | datetime]]:
        # As in a real kubelet, the heartbeat time rarely changes. An unchanged patch has no effect on the API server.
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


def _format_numbers(numbers: Mapping[str, int]) -> dict[str, str]:
    return {resource: str(number) for resource, number in sorted(numbers.items())}


def _build_node_info(spec: NodeSpec) -> dict[str, str]:
    # Derive the identity from the name, so that it is the same after a restart.
    identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{spec.name}.simulated"))
    return {
        "architecture": _read_architecture(),
        "bootID": identity,
        "containerRuntimeVersion": f"simulated://{__version__}",
        "kernelVersion": spec.kernel or platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": _VERSION,
        "machineID": identity.replace("-", ""),
        "operatingSystem": "linux",
        "osImage": spec.system,
        "systemUUID": identity,
    }


def _read_architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())
