"""`accelkit sandbox nodes`, the process that runs all simulated nodes of a sandbox. The supervisor starts it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import click

from accelkit.errors import SandboxError, raise_first
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.sandbox.kubelet import run_node
from accelkit.sandbox.layout import ROOT_VARIABLE, SandboxPaths
from accelkit.sandbox.nodes import load_nodes
from accelkit.sandbox.run_folder import build_node_root

__all__ = ["nodes"]

log = logging.getLogger(__name__)


@click.command(hidden=True)
@click.option(
    "--root",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the sandbox.",
)
def nodes(root: Path) -> None:
    """Run the simulated nodes of a sandbox until SIGTERM."""
    asyncio.run(_run_until_signal(root.absolute()))


async def _run_until_signal(root: Path) -> None:
    running = asyncio.create_task(_run(root))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        log.info("simulated nodes stopped")


async def _run(root: Path) -> None:
    paths = SandboxPaths(root)
    facts = paths.read_facts()
    if facts is None:
        raise SandboxError(f"cannot read {paths.facts}", next_step="set --root to the folder of a sandbox")
    options = paths.read_options()
    specs = load_nodes(paths.nodes_file if paths.nodes_file.exists() else None)
    kubeconfig = Path(facts.kubeconfig)
    environ = {**os.environ, ROOT_VARIABLE: str(root)}
    async with ApiClient(load_connection(kubeconfig)) as api:
        with raise_first(SandboxError):
            async with asyncio.TaskGroup() as group:
                for index, spec in enumerate(specs):
                    node = run_node(
                        spec,
                        root=build_node_root(Path(facts.run_folder), index),
                        api=api,
                        image=facts.image,
                        plugin_grace_seconds=options.plugin_grace,
                        admin_kubeconfig=kubeconfig,
                        environ=environ,
                    )
                    group.create_task(node, name=spec.name)
