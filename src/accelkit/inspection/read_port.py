"""Names that the extender and its clients share, for the read port and for the token that identifies a client."""

from __future__ import annotations

from typing import Final

PORT_NAME: Final = "read"
# The token is valid only for the extender, because the API server rejects tokens for other audiences than its own.
AUDIENCE: Final = "accelkit.io/inspect"
# The API server's proxy does not forward the caller's Authorization header.
TOKEN_HEADER: Final = "X-Accelkit-Token"  # noqa: S105 - a name
INSPECTOR: Final = "accelkit-inspector"


def name_read_port(service: str) -> str:
    """Return the name of the read port for API server proxy paths and RBAC rules."""
    return f"https:{service}:{PORT_NAME}"
