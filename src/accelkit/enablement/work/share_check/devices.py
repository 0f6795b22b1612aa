"""Test of whether the device nodes of a container can be opened."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from accelkit.enablement.work.share_check.evidence import WorkError

_DEV: Final = "/dev/"
# The container's user is not in the group of the device node. In contrast, EPERM means that the container is not
# allowed to use the device.
_NOT_OURS: Final = frozenset({errno.EACCES})
# Another process has exclusive access, which some drivers support.
_BUSY: Final = frozenset({errno.EBUSY})


def open_devices(devices: Path, nodes: Iterable[str]) -> tuple[str, ...]:
    """Open each device node once; return the nodes that are busy or that this user is not permitted to open.

    Args:
        devices: the container's `/dev`.
        nodes: device nodes, for example `/dev/nvidia0`.

    Raises:
        WorkError: a device node is missing, has no driver, or is not available in this container.
    """
    closed: list[str] = []
    for node in nodes:
        path = devices / node.removeprefix(_DEV)
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as exc:
            if exc.errno not in _NOT_OURS | _BUSY:
                raise WorkError("DeviceNotOpened", f"cannot open {node}: {exc.strerror or exc}") from exc
            closed.append(node)
    return tuple(closed)
