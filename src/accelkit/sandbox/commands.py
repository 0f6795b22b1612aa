"""The commands `accelkit sandbox …`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click
from rich.table import Table

from accelkit.output import output_option, print_value
from accelkit.sandbox import lifecycle
from accelkit.sandbox.binaries import find_binaries, find_cache_dir
from accelkit.sandbox.fake_host.command import fake_host
from accelkit.sandbox.layout import DEFAULT_EXTENDER_PORT, SandboxOptions, SandboxPaths, find_default_root
from accelkit.sandbox.nodes_command import nodes
from accelkit.sandbox.supervisor import Supervisor

_root = click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the sandbox (default: ACCELKIT_SANDBOX, or ~/.local/state/accelkit/sandbox).",
)


@click.group(short_help="Run a complete cluster on this machine.")
def sandbox() -> None:
    """Run a complete cluster on this machine: a real control plane and simulated nodes with cards."""


@sandbox.command()
@_root
@click.option(
    "--nodes",
    "nodes_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="YAML file of nodes and cards.",
)
@click.option(
    "--extender-port",
    envvar="ACCELKIT_EXTENDER_PORT",
    show_envvar=True,
    type=click.IntRange(1, 65535),
    default=DEFAULT_EXTENDER_PORT,
    show_default=True,
    help="Port of the extender.",
)
@click.option(
    "--plugin-grace",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds before a resource without a device plugin is removed (real kubelet: 300).",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=180.0,
    show_default=True,
    help="Seconds to wait until the sandbox is ready.",
)
def up(root: Path | None, nodes_file: Path | None, extender_port: int, plugin_grace: float, timeout: float) -> None:
    """Start the sandbox and wait until it is ready."""
    options = SandboxOptions(extender_port, plugin_grace, timeout)
    facts = lifecycle.start_sandbox(_paths(root), options, nodes_file, click.echo, os.environ)
    click.echo(f"nodes: {', '.join(facts.nodes)}")
    click.echo(f"use it:  export KUBECONFIG={facts.kubeconfig}")
    click.echo("stop it: accelkit sandbox down" + (f" --root {root}" if root else ""))


@sandbox.command()
@_root
def down(root: Path | None) -> None:
    """Stop and delete the sandbox, even if it failed to start."""
    lifecycle.stop_sandbox(_paths(root), click.echo)


@sandbox.command()
@_root
@output_option
def status(root: Path | None, output: str) -> None:
    """Print the state and processes of the sandbox."""
    found = lifecycle.read_status(_paths(root))

    def build_table() -> Table:
        state = found.facts.state if found.running else "not running"
        table = Table("process", "pid", "state", "MiB", title=f"sandbox: {state}", title_justify="left", box=None)
        for process in found.processes:
            running = "running" if process.running else "ended"
            table.add_row(process.name, str(process.pid), running, str(process.memory_mib))
        table.caption = f"KUBECONFIG={found.facts.kubeconfig}"
        return table

    print_value(found, output, build_table)


@sandbox.command(short_help="Find or build the control plane's binaries.")
def build() -> None:
    """Find the control plane's binaries, or build them from source, and print their folder."""
    binaries = find_binaries(os.environ, cache_dir=find_cache_dir(os.environ), report=click.echo)
    click.echo(f"control plane binaries: {binaries.etcd.parent} (from {binaries.source})")


@sandbox.command(hidden=True)
@_root
def supervise(root: Path | None) -> None:
    """Run the sandbox's supervisor, which `up` starts."""
    paths = _paths(root)
    binaries = find_binaries(os.environ, cache_dir=find_cache_dir(os.environ), report=click.echo)
    asyncio.run(Supervisor(paths, paths.read_options(), binaries).run())


sandbox.add_command(nodes)
sandbox.add_command(fake_host)


def _paths(root: Path | None) -> SandboxPaths:
    # Resolve the path, because `down` finds the processes of a sandbox by this path.
    return SandboxPaths((root or find_default_root(os.environ)).resolve())
