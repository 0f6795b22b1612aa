"""The command `accelkit cache-agent`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from accelkit import __version__
from accelkit.cacheagent.agent import AgentOptions, run
from accelkit.cacheagent.disk.content import RECHECK_SECONDS
from accelkit.cacheagent.planning.world import GIB
from accelkit.command_options import kubeconfig_option, log_folder_option, log_format_option, trusted_root_option
from accelkit.gkm.names import HOST_FOLDER
from accelkit.kernelcache.commands.options import read_settings, registry_options
from accelkit.logs import LogFormat, set_up_service_log

_LOG = "accelkit-cache-agent"


@click.command("cache-agent", short_help="Prepare verified kernel caches on this node.")
@click.version_option(__version__, prog_name="accelkit cache-agent")
@click.option("--node", envvar="NODE_NAME", required=True, help="Name of this node in the cluster.")
@kubeconfig_option
@click.option(
    "--namespace", envvar="POD_NAMESPACE", default="", help="Namespace of the pull secrets of ClusterGKMCaches."
)
@click.option(
    "--folder",
    envvar="ACCELKIT_CACHE_FOLDER",
    type=click.Path(path_type=Path),
    default=str(HOST_FOLDER),
    show_default=True,
    help="Folder of the caches, mounted at the same path as on the host.",
)
@click.option(
    "--max-gib",
    envvar="ACCELKIT_CACHE_MAX_GIB",
    type=click.FloatRange(min=0, min_open=True),
    help="Maximum total size of all caches in GiB. Default: no limit except the disk.",
)
@click.option(
    "--min-free-gib",
    envvar="ACCELKIT_CACHE_MIN_FREE_GIB",
    type=click.FloatRange(min=0),
    default=0,
    show_default=True,
    help="Disk space that must stay free, in GiB.",
)
@click.option(
    "--min-free-percent",
    envvar="ACCELKIT_CACHE_MIN_FREE_PERCENT",
    type=click.FloatRange(min=0, max=100),
    default=15,
    show_default=True,
    help="Percentage of the disk that must stay free, if larger; kubelets delete images at 15 and evict pods at 10.",
)
@trusted_root_option
@click.option(
    "--scan-folder",
    envvar="ACCELKIT_SCAN_FOLDER",
    type=click.Path(path_type=Path),
    help="Folder with the results of `accelkit cache-scan`, which are required to count cache misses.",
)
@click.option(
    "--look-again-seconds",
    "recheck_seconds",
    envvar="ACCELKIT_CACHE_LOOK_AGAIN_SECONDS",
    type=click.FloatRange(min=1),
    default=RECHECK_SECONDS,
    show_default=True,
    help="Interval between verifications of caches without write protection.",
)
@click.option(
    "--metrics-port",
    envvar="ACCELKIT_METRICS_PORT",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port for /metrics and /healthz; 0 to disable it.",
)
@log_folder_option
@log_format_option
@registry_options
def cache_agent(
    *,
    node: str,
    folder: Path,
    max_gib: float | None,
    min_free_gib: float,
    log_dir: Path | None,
    log_format: str,
    **options: Any,
) -> None:
    """Extract verified caches that fit this node's cards, and report the state of each cache."""
    set_up_service_log(_LOG, log_dir, LogFormat(log_format))
    registries = read_settings(options)
    asyncio.run(
        run(
            AgentOptions(
                node=node,
                folder=folder,
                registries=registries,
                max_bytes=None if max_gib is None else int(max_gib * GIB),
                min_free_bytes=int(min_free_gib * GIB),
                **options,
            )
        )
    )
