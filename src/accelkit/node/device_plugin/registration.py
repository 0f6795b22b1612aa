"""Registration of the device plugins with the kubelet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.kubelet import KUBELET_SOCKET

log = logging.getLogger(__name__)

_SOCKETS_SECONDS = 1.0


async def keep_registered(
    root: Path,
    plugins: Sequence[DevicePlugin],
    found_any: asyncio.Event,
    on_new_kubelet: Callable[[], None] = lambda: None,
) -> None:
    """Start and register the plugins; do so again after the kubelet has restarted or a socket has disappeared.

    A plugin whose resource is withheld is not registered. If the resource of a registered plugin is withheld later, the
    plugin remains registered and lists all free devices as unhealthy. The kubelet does not remove the devices that are
    allocated to pods.

    Args:
        root: the host's root folder.
        plugins: the plugins to register.
        found_any: the event that is set when the cards are known.
        on_new_kubelet: called when the kubelet has restarted, before the plugins register.
    """
    # Wait for the cards, because an empty list would withdraw all devices.
    await found_any.wait()
    registered: dict[str, tuple[int, int]] = {}
    last: tuple[int, int] | None = None
    while True:
        kubelet = _read_identity(root / KUBELET_SOCKET)
        if kubelet is not None and kubelet != last:
            if last is not None:
                on_new_kubelet()
            last = kubelet
        for plugin in plugins:
            known = registered.get(plugin.resource)
            if kubelet is None or (known is None and plugin.withheld) or (known == kubelet and plugin.socket.exists()):
                continue
            try:
                await plugin.start()
                registered[plugin.resource] = kubelet
            except DevicePluginError as exc:
                registered.pop(plugin.resource, None)
                log.warning("%s", exc)
        await asyncio.sleep(_SOCKETS_SECONDS)


def _read_identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # A new kubelet creates a new socket. The new socket may have the inode of the old one, so the time is also
    # compared.
    return found.st_ino, found.st_ctime_ns
