"""The command `accelkit node-agent`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from accelkit import __version__
from accelkit.command_options import kubeconfig_option, log_folder_option, log_format_option
from accelkit.errors import ConfigurationError, ProfileError
from accelkit.logs import LogFormat, set_up_service_log
from accelkit.model.card import MAX_MEMORY_FACTOR
from accelkit.model.units import parse_unit
from accelkit.node.agent import run
from accelkit.node.enforcement.mps import MPS_PIPE_DIRECTORY, MpsFolders
from accelkit.node.health import HealthChecks
from accelkit.node.host_root import host_root_option
from accelkit.node.options import AgentOptions
from accelkit.vendors.dialects import list_dialect_names, load_dialect, load_served_dialect


@click.command("node-agent", short_help="Serve this node's cards to its kubelet.")
@click.version_option(__version__, prog_name="accelkit node-agent")
@click.option("--node-name", envvar="NODE_NAME", required=True, help="Name of this node in the cluster.")
@host_root_option
@click.option("--unit", default="1GiB", show_default=True, help="Unit of accelkit.io/memory in the cluster.")
@click.option(
    "--former-unit",
    help="Unit in which pods got devices from another release, if accelkit takes over their node.",
)
@click.option(
    "--memory-factor",
    envvar="ACCELKIT_MEMORY_FACTOR",
    type=float,
    callback=lambda _context, _option, factor: _check_factor(factor),
    default=1.0,
    show_default=True,
    help="Total memory of a card's shares as a multiple of the card's memory; more than 1 is oversubscription.",
)
@click.option(
    "--dialect",
    type=click.Choice(list_dialect_names()),
    callback=lambda _context, _option, name: _check_dialect(name),
    default="native",
    show_default=True,
    help="Dialect whose resources the node advertises.",
)
@kubeconfig_option
@click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    help="Namespace of the ConfigMap with the observed allocations for `accelkit audit`. Without it, the agent writes "
    "no ConfigMap.",
)
@click.option(
    "--managed-resources",
    help="ConfigMap in the namespace that lists the resources for which every kube-scheduler calls the extender. The "
    "agent offers only these resources. Without it, the agent offers all resources.",
)
@click.option(
    "--steering/--no-steering",
    default=True,
    show_default=True,
    help="Offer the assigned devices to the kubelet, or let the kubelet choose and only correct the assignments.",
)
@click.option(
    "--health-checks",
    type=click.Choice([each.value for each in HealthChecks]),
    default=HealthChecks.ALL.value,
    show_default=True,
    help="Sources of the cards' health: all sources, only the host's files without NVIDIA's driver, or none.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65535), default=0, help="Port of /metrics, or 0 to disable it.")
@click.option(
    "--mps-folder",
    default=MPS_PIPE_DIRECTORY,
    show_default=True,
    help="Host folder with the pipes of NVIDIA's MPS control daemon. If the daemon runs, the agent sets its limits.",
)
@click.option(
    "--await-host-files",
    is_flag=True,
    help="Wait at the start until `accelkit host-files` has copied the host's files below the root.",
)
@click.option(
    "--cgroup-limits/--no-cgroup-limits",
    default=False,
    show_default=True,
    help="Limit the memory of pods in their cgroups. This requires write access to the cgroups.",
)
@click.option(
    "--mps-shared-memory",
    help="Host folder that the MPS control daemon uses as /dev/shm (default: `shm` in the folder of its pipes).",
)
@click.option(
    "--gas-slots",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Slots per card that the agent serves as gpu.intel.com/i915 and xe, or 0 if Intel's plugin serves them.",
)
@click.option(
    "--process-scan",
    type=click.Path(path_type=Path),
    help="Folder in which `accelkit process-scan` lists the processes that use cards. Without it, the agent detects no "
    "processes.",
)
@log_folder_option
@log_format_option
def node_agent(  # noqa: PLR0917 - click passes options by name
    node_name: str,
    host_root: Path,
    unit: str,
    former_unit: str | None,
    memory_factor: float,
    dialect: str,
    kubeconfig: Path | None,
    namespace: str | None,
    managed_resources: str | None,
    steering: bool,  # noqa: FBT001 - click passes options by name
    health_checks: str,
    metrics_port: int,
    mps_folder: str,
    await_host_files: bool,  # noqa: FBT001 - click passes options by name
    cgroup_limits: bool,  # noqa: FBT001 - click passes options by name
    mps_shared_memory: str | None,
    gas_slots: int,
    process_scan: Path | None,
    log_dir: Path | None,
    log_format: str,
) -> None:
    """Publish this node's cards and serve them to its kubelet."""
    set_up_service_log(load_dialect(dialect).logs.node_agent, log_dir, LogFormat(log_format))
    if not host_root.is_dir():
        raise ConfigurationError(f"the host's root {host_root} is not a folder", next_step="set ACCELKIT_HOST_ROOT")
    if managed_resources and not namespace:
        raise ConfigurationError(
            "--managed-resources requires the namespace of the ConfigMap", next_step="set --namespace or POD_NAMESPACE"
        )
    options = AgentOptions(
        node_name,
        host_root,
        parse_unit(unit),
        dialect,
        kubeconfig,
        namespace=namespace or None,
        steering=steering,
        health=HealthChecks(health_checks),
        metrics_port=metrics_port,
        await_host_files=await_host_files,
        cgroup_limits=cgroup_limits,
        mps=MpsFolders(mps_folder, _check_shared_memory(mps_shared_memory or f"{mps_folder}/shm")),
        scan_folder=process_scan,
        gas_slots=gas_slots,
        former_unit_bytes=parse_unit(former_unit) if former_unit else None,
        memory_factor=memory_factor,
        managed_resources=managed_resources or "",
    )
    asyncio.run(run(options))


def _check_dialect(name: str) -> str:
    try:
        return load_served_dialect(name).name
    except ProfileError as exc:
        raise click.BadParameter(str(exc)) from exc


def _check_factor(factor: float) -> float:
    # The negated comparison also rejects NaN.
    if not 1 <= factor <= MAX_MEMORY_FACTOR:
        raise click.BadParameter(f"{factor:g} is out of range; it must be between 1 and {MAX_MEMORY_FACTOR:g}")
    return factor


def _check_shared_memory(folder: str) -> str:
    if Path(folder) == Path("/dev/shm"):  # noqa: S108 - the path to refuse
        raise ConfigurationError(
            "cannot mount the host's /dev/shm into pods",
            next_step="start the MPS control daemon with another folder as /dev/shm, and set --mps-shared-memory to it",
        )
    return folder
