"""Keeps the device plugins registered with the kubelet."""

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
    """Serve and register, again whenever the kubelet has restarted or our sockets are gone.

    A plugin whose resource is withheld waits. One that has registered stays registered when its resource is withheld
    later: its list of devices says so, and the kubelet does not forget what pods hold.

    Args:
        root: the host's root folder.
        plugins: what is served.
        found_any: set once the cards are known.
        on_new_kubelet: called when the kubelet has restarted, before it is registered with.
    """
    # Not before the cards are known: an empty list would tell the kubelet that there are none.
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
    # A new kubelet makes a new socket; the inode alone may be the old one's, used again.
    return found.st_ino, found.st_ctime_ns
