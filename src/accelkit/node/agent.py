"""The service `accelkit node-agent`: finds the node's cards, publishes them, and serves them to the kubelet."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelkit.cluster.client import ApiClient
from accelkit.cluster.connection import load_connection
from accelkit.errors import ConfigurationError, DevicePluginError
from accelkit.node.advertising import Advertising
from accelkit.node.discovery import discover
from accelkit.node.grants import Grants
from accelkit.node.kubelet import KUBELET_SOCKET
from accelkit.node.plugin import DevicePlugin
from accelkit.node.pods import NodePods
from accelkit.vendors.dialects import ResourceNames, load_dialect
from accelkit.vendors.profiles import load_profiles

log = logging.getLogger(__name__)

_DISCOVER_SECONDS = 30.0
# A node may wait for its pods for days.
_UNIT_SECONDS = 5.0
_SOCKETS_SECONDS = 1.0


@dataclass(frozen=True)
class Options:
    """What `accelkit node-agent` was told."""

    node: str
    root: Path
    unit_bytes: int
    dialect: str
    kubeconfig: Path | None = None


async def run(options: Options) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: no cluster is configured.
        DevicePluginError: the cards are more than the kubelet takes.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with ApiClient(load_connection(options.kubeconfig)) as api:
        resources = load_dialect(options.dialect).resources
        pods = NodePods(api, options.node, resources.memory)
        plugins = _plugins(options, resources, pods)
        advertising = Advertising(
            api,
            options.node,
            options.root,
            told_bytes=options.unit_bytes,
            resource=resources.memory,
            pods=pods,
            plugins=plugins,
        )
        stopping = asyncio.create_task(stop.wait())
        found = asyncio.Event()
        tasks = {
            stopping,
            asyncio.create_task(pods.reflector.run()),
            asyncio.create_task(_keep_cards(options.root, pods, advertising, found)),
            asyncio.create_task(_keep_registered(options.root, plugins, found)),
        }
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks - done:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for plugin in plugins:
            await plugin.stop()
        for task in done - {stopping}:
            task.result()
    log.info("node agent ended")


def _plugins(options: Options, resources: ResourceNames, pods: NodePods) -> Sequence[DevicePlugin]:
    memory, cards = resources.memory, resources.cards
    memory_grants = Grants(whole=False, unit_bytes=options.unit_bytes)
    card_grants = Grants(whole=True)
    return (
        DevicePlugin(
            options.root,
            resource=memory,
            whole=False,
            pods=pods,
            grants=memory_grants,
            other=(cards, card_grants),
        ),
        DevicePlugin(
            options.root,
            resource=cards,
            whole=True,
            pods=pods,
            grants=card_grants,
            other=(memory, memory_grants),
        ),
    )


async def _keep_cards(root: Path, pods: NodePods, advertising: Advertising, found_any: asyncio.Event) -> None:
    """Look for cards again and again; tell the kubelet and the cluster when they, or their unit, change."""
    # Which unit can be advertised depends on the pods. The reflector tries until the API server answers, and says so.
    await pods.reflector.synced.wait()
    while True:
        settled = True
        try:
            found = await asyncio.to_thread(discover, root, load_profiles().values())
        except DevicePluginError as exc:
            # Not readable is not absent: what was shown before stays.
            log.warning("%s", exc)
        else:
            settled = await advertising.update(found)
            if advertising.shown:
                found_any.set()
        await asyncio.sleep(_DISCOVER_SECONDS if settled else _UNIT_SECONDS)


async def _keep_registered(root: Path, plugins: Sequence[DevicePlugin], found_any: asyncio.Event) -> None:
    """Serve and register, again whenever the kubelet has restarted or our sockets are gone."""
    # Not before the cards are known: an empty list would tell the kubelet that there are none.
    await found_any.wait()
    registered: tuple[int, int] | None = None
    while True:
        kubelet = _identity(root / KUBELET_SOCKET)
        whole = all(plugin.socket.exists() for plugin in plugins)
        if kubelet is not None and (kubelet != registered or not whole):
            try:
                for plugin in plugins:
                    await plugin.start()
                registered = kubelet
            except DevicePluginError as exc:
                registered = None
                log.warning("%s", exc)
        await asyncio.sleep(_SOCKETS_SECONDS)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # A new kubelet makes a new socket; the inode alone may be the old one's, used again.
    return found.st_ino, found.st_ctime_ns


def check_root(root: Path) -> None:
    """Refuse a root that is no host's.

    Raises:
        ConfigurationError: the folder is not there.
    """
    if not root.is_dir():
        raise ConfigurationError(f"the host's root {root} is not a folder", next_step="set ACCELKIT_HOST_ROOT")
