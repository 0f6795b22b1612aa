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
        steering: whether the plugins offer the kubelet preferred devices.
        health: the sources of card health; unless it is all of them, the agent does not keep NVIDIA's cards open.
        await_host_files: whether to wait for another container that copies the host's files below the root.
        gas_slots: the number of slots of each card that GAS's resources offer; 0 if they are not served.
        cgroup_limits: whether the memory of pods is limited in their cgroups.
        memory_factor: the combined size of a card's shares, as a multiple of the card's memory.
        managed_resources: the name of the ConfigMap that lists the resources that may be offered; empty for all.
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
