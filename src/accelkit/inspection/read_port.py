"""What readers and the extender agree on: the name of the port, and by which token a reader is known."""

from __future__ import annotations

from typing import Final

PORT_NAME: Final = "read"
# Of no use anywhere else: the API server itself takes tokens of its own audience alone.
AUDIENCE: Final = "accelkit.io/inspect"
# The API server's proxy keeps a caller's Authorization for itself.
TOKEN_HEADER: Final = "X-Accelkit-Token"  # noqa: S105 - a name
INSPECTOR: Final = "accelkit-inspector"


def name_read_port(service: str) -> str:
    """Return the name under which the API server proxies to the port, which is also that of the right to it."""
    return f"https:{service}:{PORT_NAME}"
