"""Names that readers and the extender share: the port for reading, and the token that identifies a reader."""

from __future__ import annotations

from typing import Final

PORT_NAME: Final = "read"
# The token cannot be used for anything else, because the API server accepts only tokens with its own audience.
AUDIENCE: Final = "accelkit.io/inspect"
# The API server's proxy does not forward the caller's Authorization header.
TOKEN_HEADER: Final = "X-Accelkit-Token"  # noqa: S105 - a name
INSPECTOR: Final = "accelkit-inspector"


def name_read_port(service: str) -> str:
    """Return the name under which the API server proxies to the port. RBAC rules for the port use the same name."""
    return f"https:{service}:{PORT_NAME}"
