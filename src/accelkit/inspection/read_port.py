"""Names that readers and the extender share: the port for reading, and the token that identifies a reader."""

from __future__ import annotations

from typing import Final

PORT_NAME: Final = "read"
# The token has no other use, because the API server accepts only tokens of its own audience.
AUDIENCE: Final = "accelkit.io/inspect"
# The API server's proxy does not forward the Authorization header of a caller.
TOKEN_HEADER: Final = "X-Accelkit-Token"  # noqa: S105 - a name
INSPECTOR: Final = "accelkit-inspector"


def name_read_port(service: str) -> str:
    """Return the name under which the API server proxies to the port. The right to it has the same name."""
    return f"https:{service}:{PORT_NAME}"
