"""An API server as far as examples need one: objects by path, kept as they were applied."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from accelkit.errors import ApiError

GKM = ("GKMCache", "ClusterGKMCache")


class StoredObjects:
    """What an ApiClient would speak to; `requests` are those that change something.

    Attributes:
        kinds: of GKM that the server knows; none at all is a server that does not know the group.
        refusals: what the next PATCHes answer, by the last part of their path; None lets one through.
        lingering: how often an object is still shown after its deletion, by kind's plural; -1 for ever.
    """

    def __init__(self, kinds: Sequence[str] = GKM) -> None:
        self.kinds = kinds
        self.objects: dict[str, Any] = {}
        self.requests: list[tuple[str, str, str]] = []
        self.refusals: dict[str, list[ApiError | None]] = {}
        self.lingering: dict[str, int] = {}
        self.deleted: dict[str, int] = {}

    async def get(self, path: str) -> bytes:
        if path == "/apis/gkm.io/v1alpha1":
            if not self.kinds:
                raise ApiError("the server could not find the requested resource", status=404)
            return msgspec.json.encode({"resources": [{"kind": kind, "name": "n"} for kind in self.kinds]})
        if self.deleted.get(path) == 0:
            self.objects.pop(path, None)
        if path in self.deleted:
            self.deleted[path] -= 1
        if path not in self.objects:
            raise ApiError("not found", status=404, reason="NotFound")
        return msgspec.json.encode(self.objects[path])

    async def patch(self, path: str, body: object, *, kind: str, query: Mapping[str, str]) -> bytes:
        assert kind == "apply"
        assert query["fieldManager"] == "accelkit-examples"
        self.requests.append(("PATCH", path, query.get("dryRun", "")))
        waiting = self.refusals.get(path.rsplit("/", 1)[1])
        if waiting and (refusal := waiting.pop(0)):
            raise refusal
        if "dryRun" not in query:
            self.objects[path] = copy.deepcopy(body)
        return msgspec.json.encode(body)

    async def delete(self, path: str, body: object) -> bytes:
        assert body == {"propagationPolicy": "Foreground"}
        self.requests.append(("DELETE", path, ""))
        if path not in self.objects:
            raise ApiError("not found", status=404, reason="NotFound")
        self.deleted[path] = self.lingering.get(path.split("/")[-2], 0)
        return b"{}"
