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
        steering: whether the kubelet is told which devices to choose.
        health: what is asked for the health of cards; with less than all, nothing keeps NVIDIA's cards open.
        await_host_files: whether files of the host are copied below the root by another container.
        gas_slots: how many times each card can be given by GAS's resources; 0 where they are not served.
        cgroup_limits: whether pods are held to their memory by limits of their cgroups.
        memory_factor: how many times its memory the shares of a card may take together.
        managed_resources: name of the ConfigMap that lists the resources which may be offered; empty for all.
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
