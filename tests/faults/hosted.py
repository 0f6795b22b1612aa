"""Several simulated kubelets, or several node agents, in one process: a process for each would take 100 MB.

    python hosted.py kubelets|agents SETTINGS

SETTINGS is the JSON that `HostedSettings` describes. Each kubelet and each agent has its node's root, its sockets and
its connections for itself, as in a process of its own; what they share is the event loop, and their end.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.logs import FORMAT, set_up_log, set_up_service_log
from accelkit.model.managed_resources import MANAGED_RESOURCES_NAME
from accelkit.node.agent import run as run_agent
from accelkit.node.options import AgentOptions
from accelkit.sandbox.kubelet import run_node
from accelkit.sandbox.nodes import NodeSpec

# A real kubelet keeps a resource for as long after its device plugin is gone.
PLUGIN_GRACE_SECONDS = 300.0


class HostedSettings(msgspec.Struct, kw_only=True):
    """What the process runs.

    Attributes:
        roots: the folder that is each node's `/`, in the order of the nodes.
        kubeconfig: of the way to the API server that may be cut.
        admin_kubeconfig: names the API server's authority.
        namespace: where agents publish what their kubelets gave.
        log_folder: where agents write their log beside their output.
    """

    nodes: list[NodeSpec]
    roots: list[str]
    kubeconfig: str
    admin_kubeconfig: str
    namespace: str
    unit_bytes: int = 2**30
    dialect: str = "native"
    log_folder: str = ""


def main() -> None:
    role, path = sys.argv[1:]
    settings = msgspec.json.decode(Path(path).read_bytes(), type=HostedSettings)
    if settings.log_folder:
        set_up_log("INFO")
        set_up_service_log(Path(path).stem, Path(settings.log_folder))
    else:
        logging.basicConfig(level=logging.INFO, format=FORMAT, stream=sys.stdout)
    asyncio.run(run_kubelets(settings) if role == "kubelets" else run_agents(settings))


async def run_kubelets(settings: HostedSettings) -> None:
    async with ApiClient(load_connection(Path(settings.kubeconfig))) as api:
        kubelets = [
            run_node(
                spec,
                root=Path(root),
                api=api,
                image="accelkit.io/none",
                plugin_grace_seconds=PLUGIN_GRACE_SECONDS,
                admin_kubeconfig=Path(settings.admin_kubeconfig),
            )
            for spec, root in zip(settings.nodes, settings.roots, strict=True)
        ]
        await run_until_terminated(kubelets)


async def run_agents(settings: HostedSettings) -> None:
    stops: list[Callable[[], Any]] = []
    loop = asyncio.get_running_loop()
    # Each agent asks to be told of SIGTERM, and a loop tells one only.
    setattr(loop, "add_signal_handler", lambda _number, callback: stops.append(callback))  # noqa: B010 - a method
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: [loop.call_soon_threadsafe(stop) for stop in stops])
    async with asyncio.TaskGroup() as group:
        for spec, root in zip(settings.nodes, settings.roots, strict=True):
            options = AgentOptions(
                spec.name,
                Path(root),
                settings.unit_bytes,
                settings.dialect,
                Path(settings.kubeconfig),
                namespace=settings.namespace,
                managed_resources=MANAGED_RESOURCES_NAME,
            )
            group.create_task(run_agent(options), name=f"agent {spec.name}")


async def run_until_terminated(parts: list[Coroutine[Any, Any, None]]) -> None:
    running = asyncio.gather(*parts)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        return


if __name__ == "__main__":
    main()
