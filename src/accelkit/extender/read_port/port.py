"""Read port, in addition to the port for kube-scheduler."""

from __future__ import annotations

from typing import Final

from accelkit.extender.endpoint import LeaderEndpoint
from accelkit.extender.read_port.reader import Reader
from accelkit.extender.read_port.reviews import Reviewer
from accelkit.extender.routes import Routes
from accelkit.inspection.simulation import MAX_QUESTION_BYTES
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection
from accelkit.serving.server import HeadServer
from accelkit.serving.tls import Listen

# Timeout of each review of a client in seconds, and limits on concurrent reviews and client connections.
_REVIEW_SECONDS: Final = 3.0
_REVIEWS: Final = 4
_CONNECTIONS: Final = 32
# A token is sent in one header.
_HEADER_BYTES: Final = 20_000


def make_review_client(connection: Connection) -> ApiClient:
    """Return a client for reviews, with separate connections so that no Binding waits for a review."""
    return ApiClient(connection, timeout_seconds=_REVIEW_SECONDS, connections=_REVIEWS)


def make_read_server(listen: Listen, routes: Routes, reviews: ApiClient, endpoint: LeaderEndpoint) -> HeadServer:
    """Return the server for clients that authenticate with an API server token.

    Args:
        listen: the address.
        routes: the routes that handle the requests.
        reviews: an open client, from `make_review_client`.
        endpoint: the Service through which clients connect.
    """
    reader = Reader(routes, Reviewer(reviews, endpoint.namespace, endpoint.service))
    return HeadServer(
        listen,
        reader.handle,
        connections=_CONNECTIONS,
        header_bytes=_HEADER_BYTES,
        body_bytes=MAX_QUESTION_BYTES,
    )
