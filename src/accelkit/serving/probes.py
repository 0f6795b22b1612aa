"""Read-only server for the probes and metrics of a service, over plain HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST

from accelkit import __version__
from accelkit.serving.messages import Reply
from accelkit.serving.server import Headers, HeadServer
from accelkit.serving.tls import Listen

_CONNECTIONS: Final = 16
_TEXT: Final = "text/plain; charset=utf-8"


def make_probe_server(listen: Listen, render: Callable[[], bytes], explain_unready: Callable[[], str]) -> HeadServer:
    """Return a server for `/healthz`, `/readyz`, `/version` and `/metrics`.

    Args:
        listen: the address of the server.
        render: a function that returns the metrics.
        explain_unready: a function that returns the reason why this replica is not ready; empty if it is ready.

    Raises:
        ConfigurationError: the port is in use, or this process does not have permission to use it.
    """

    def answer_ready() -> Reply:
        why = explain_unready()
        return Reply(503 if why else 200, f"{why or 'ok'}\n".encode(), _TEXT)

    pages: Final[dict[str, Callable[[], Reply]]] = {
        "/healthz": lambda: Reply(200, b"ok\n", _TEXT),
        "/readyz": answer_ready,
        "/version": lambda: Reply(200, f"v{__version__}\n".encode(), _TEXT),
        "/metrics": lambda: Reply(200, render(), CONTENT_TYPE_LATEST),
    }

    async def answer(method: str, path: str, _: Headers) -> Reply:
        if method != "GET":
            return Reply(405, b"only GET\n", _TEXT)
        page = pages.get(path)
        return Reply(404, b"only /healthz, /readyz, /version and /metrics exist\n", _TEXT) if page is None else page()

    return HeadServer(listen, answer, connections=_CONNECTIONS)
