"""Event writer, which reports pod and node events to users and administrators."""

from __future__ import annotations

import logging
import secrets
from datetime import UTC, datetime
from typing import Final

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_collection_path
from accelkit.texts import clean

log = logging.getLogger(__name__)

# The API server accepts at most 1024 bytes.
_MAX_MESSAGE: Final = 1000
# Names have at most 253 characters. The suffix that this module appends has 17 characters.
_MAX_PREFIX: Final = 236
_NODE_NAMESPACE: Final = "default"


class ObjectReference(msgspec.Struct, frozen=True, rename="camel"):
    """Reference to the object that an event describes. The namespace of a node is empty."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class Events:
    """Event writer for one component. If an event cannot be written, the failure is logged and the event is discarded.

    Args:
        api: an open client.
        component: the reporting component, such as `accelkit-node-agent`.
        host: the node on which the component runs.
    """

    def __init__(self, api: ApiClient, component: str, host: str) -> None:
        self._api = api
        self._source = {"component": component, "host": host}

    async def record(self, involved: ObjectReference, reason: str, message: str, *, warning: bool = False) -> None:
        """Write an event.

        Args:
            involved: the object that the event describes.
            reason: a machine-readable word in CamelCase.
            message: the message for users, as a sentence.
            warning: whether the event has the type Warning.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        namespace = involved.namespace or _NODE_NAMESPACE
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": _name_event(involved), "namespace": namespace},
            "involvedObject": {key: value for key, value in msgspec.to_builtins(involved).items() if value},
            "reason": reason,
            # The message can contain card IDs and driver messages that node agents publish.
            "message": clean(message[:_MAX_MESSAGE]),
            "type": "Warning" if warning else "Normal",
            "source": self._source,
            "reportingComponent": self._source["component"],
            "reportingInstance": self._source["host"],
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._api.post(build_collection_path("v1", "events", namespace), event)
        except ApiError as exc:
            log.warning("cannot write event %s for %s %s: %s", reason, involved.kind, involved.name, exc)


def _name_event(involved: ObjectReference) -> str:
    """Return a valid event name, in which each part between dots ends with a letter or digit."""
    return f"{involved.name[:_MAX_PREFIX].rstrip('-.')}.{secrets.token_hex(8)}"
