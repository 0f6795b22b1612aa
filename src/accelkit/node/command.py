"""The command `accelkit node-agent`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from accelkit import __version__
from accelkit.errors import ConfigurationError
from accelkit.logs import set_up_service_log
from accelkit.model.units import parse_unit
from accelkit.node.agent import AgentOptions, run
from accelkit.node.device_plugin.enforcement import MPS_PIPE_DIRECTORY
from accelkit.vendors.dialects import list_dialect_names, load_dialect


@click.command("node-agent", short_help="Serve this node's cards to its kubelet.")
@click.version_option(__version__, prog_name="accelkit node-agent")
@click.option("--node-name", envvar="NODE_NAME", required=True, help="This node's name in the cluster.")
@click.option(
    "--host-root",
    envvar="ACCELKIT_HOST_ROOT",
    default="/",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where the host's files lie.",
)
@click.option("--unit", default="1GiB", show_default=True, help="The cluster's unit of accelkit.io/memory.")
@click.option(
    "--dialect",
    type=click.Choice(list_dialect_names(advertised=True)),
    default="native",
    show_default=True,
    help="Whose resource names the node advertises.",
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Default: KUBECONFIG, else the pod's service account."
)
@click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    help="Where what the kubelet shows is passed on for `accelkit audit`; without it nothing is.",
)
@click.option(
    "--steering/--no-steering",
    default=True,
    show_default=True,
    help="Tell the kubelet which devices to choose, or correct the assignments after its own choice.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65535), default=0, help="Port of /metrics; 0 for none.")
@click.option(
    "--mps-folder",
    default=MPS_PIPE_DIRECTORY,
    show_default=True,
    help="Where NVIDIA's MPS control daemon has its pipes on the host; its limits are set where it runs.",
)
@click.option(
    "--log-dir",
    envvar="ACCELKIT_LOG_DIR",
    type=click.Path(path_type=Path),
    help="Folder of the log file; without it the log goes to stdout alone.",
)
def node_agent(  # noqa: PLR0917 - click passes options by name
    node_name: str,
    host_root: Path,
    unit: str,
    dialect: str,
    kubeconfig: Path | None,
    namespace: str | None,
    steering: bool,  # noqa: FBT001 - click passes options by name
    metrics_port: int,
    mps_folder: str,
    log_dir: Path | None,
) -> None:
    """Publish this node's cards and serve them to its kubelet."""
    set_up_service_log(load_dialect(dialect).logs.node_agent, log_dir)
    if not host_root.is_dir():
        raise ConfigurationError(f"the host's root {host_root} is not a folder", next_step="set ACCELKIT_HOST_ROOT")
    options = AgentOptions(
        node_name,
        host_root,
        parse_unit(unit),
        dialect,
        kubeconfig,
        namespace=namespace or None,
        steering=steering,
        metrics_port=metrics_port,
        mps_folder=mps_folder,
    )
    asyncio.run(run(options))
