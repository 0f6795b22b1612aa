"""The Events that were written to an API server in memory."""

from __future__ import annotations

from fake_api.server import FakeApi


def list_events(api: FakeApi) -> list[tuple[str, str, str]]:
    """Return the name of the object, the reason and the message of each Event."""
    events = [request.body for request in api.done if request.method == "POST" and request.path.endswith("/events")]
    return [(each["involvedObject"]["name"], each["reason"], each["message"]) for each in events]
