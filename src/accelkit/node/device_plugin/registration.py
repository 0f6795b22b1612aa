"""Keeps the device plugins registered with the kubelet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.kubelet import KUBELET_SOCKET

log = logging.getLogger(__name__)

_SOCKETS_SECONDS = 1.0


async def keep_registered(root: Path, plugins: Sequence[DevicePlugin], found_any: asyncio.Event) -> None:
    """Serve and register, again whenever the kubelet has restarted or our sockets are gone."""
    # Not before the cards are known: an empty list would tell the kubelet that there are none.
    await found_any.wait()
    registered: tuple[int, int] | None = None
    while True:
        kubelet = _read_identity(root / KUBELET_SOCKET)
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


def _read_identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # A new kubelet makes a new socket; the inode alone may be the old one's, used again.
    return found.st_ino, found.st_ctime_ns
