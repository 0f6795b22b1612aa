"""Options of the node agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accelkit.node.enforcement.mps import DEFAULT_MPS, MpsFolders
from accelkit.node.health import HealthChecks


@dataclass(frozen=True)
class AgentOptions:
    """Options of `accelkit node-agent`.

    Attributes:
        steering: whether the plugins offer preferred devices to the kubelet.
        health: the sources for the health of the cards. The agent keeps NVIDIA's cards open only if all sources are
            used.
        await_host_files: whether to wait until another container has copied the host's files below the root.
        gas_slots: the number of slots per card that the agent serves as the resources of GAS; 0 to disable these
            resources.
        cgroup_limits: whether the memory of pods is limited through their cgroups.
        memory_factor: the maximum total memory of a card's shares, as a multiple of the card's memory.
        managed_resources: the name of the ConfigMap that lists the resources to offer; empty to offer all resources.
    """

    node: str
    root: Path
    unit_bytes: int
    dialect: str
    kubeconfig: Path | None = None
    namespace: str | None = None
    steering: bool = True
    health: HealthChecks = HealthChecks.ALL
    metrics_port: int = 0
    await_host_files: bool = False
    cgroup_limits: bool = False
    mps: MpsFolders = DEFAULT_MPS
    scan_folder: Path | None = None
    former_unit_bytes: int | None = None
    gas_slots: int = 0
    memory_factor: float = 1.0
    managed_resources: str = ""
