"""Free ports on the loopback address, for what a test starts."""

from __future__ import annotations

import fcntl
import functools
import itertools
import os
import socket
import tempfile
from pathlib import Path
from typing import BinaryIO

# Below the ports that the system gives to outgoing connections, so that none is taken before it is used. Test processes
# side by side begin at different ones.
_LOW, _HIGH = 20000, 32000
_SPAN = _HIGH - _LOW
# The golden section keeps those of neighbouring process IDs far apart.
_offsets = itertools.count(os.getpid() * 7417 % _SPAN)


def free_port() -> int:
    """Return a port on which nothing listens; each is returned once, and to one of all test processes that run."""
    for _ in range(_SPAN):
        port = _LOW + next(_offsets) % _SPAN
        with socket.socket() as probe:
            try:
                fcntl.lockf(_open_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"no port from {_LOW} to {_HIGH} is free")


@functools.cache
def _open_locks() -> BinaryIO:
    """Open a file of which each byte stands for a port; the locks end with this process."""
    return (Path(tempfile.gettempdir()) / f"accelkit-test-ports-{os.getuid()}").open("ab")
