"""Free ports on the loopback address, for what a test starts."""

from __future__ import annotations

import itertools
import os
import socket

# Below the ports that the system gives to outgoing connections, so that none is taken before it is used. Test processes
# side by side begin at different ones.
_LOW, _HIGH = 20000, 32000
_SPAN = _HIGH - _LOW
# The golden section keeps those of neighbouring process IDs far apart.
_offsets = itertools.count(os.getpid() * 7417 % _SPAN)


def free_port() -> int:
    """Return a port on which nothing listens; each is returned once."""
    for _ in range(_SPAN):
        port = _LOW + next(_offsets) % _SPAN
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"no port from {_LOW} to {_HIGH} is free")
