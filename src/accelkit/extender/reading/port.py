"""The port on which people read, beside the one on which kube-scheduler asks."""

from __future__ import annotations

from typing import Final

from accelkit.extender.endpoint import LeaderEndpoint
from accelkit.extender.reading.reader import Reader
from accelkit.extender.reading.reviews import Reviewer
from accelkit.extender.routes import Routes
from accelkit.inspection.simulation import MAX_QUESTION_BYTES
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection
from accelkit.serving.server import HeadServer
from accelkit.serving.tls import Listen

# The deadline of each review of a reader, in seconds; how many are under way, and how many readers are connected.
_REVIEW_SECONDS: Final = 3.0
_REVIEWS: Final = 4
_CONNECTIONS: Final = 32
# A token is one header.
_HEADER_BYTES: Final = 20_000


def make_review_client(connection: Connection) -> ApiClient:
    """Return a client for reviews of readers: it has connections of its own, so that no Binding waits for them."""
    return ApiClient(connection, timeout_seconds=_REVIEW_SECONDS, connections=_REVIEWS)


def make_read_server(listen: Listen, routes: Routes, reviews: ApiClient, endpoint: LeaderEndpoint) -> HeadServer:
    """Return what serves those whose tokens the API server knows.

    Args:
        listen: where.
        routes: what answers.
        reviews: an open client, of `make_review_client`.
        endpoint: the Service through which they come.
    """
    reader = Reader(routes, Reviewer(reviews, endpoint.namespace, endpoint.service))
    return HeadServer(
        listen,
        reader.handle,
        connections=_CONNECTIONS,
        header_bytes=_HEADER_BYTES,
        body_bytes=MAX_QUESTION_BYTES,
    )
