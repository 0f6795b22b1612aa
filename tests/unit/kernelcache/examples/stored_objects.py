"""An API server as far as examples need one: objects by path, kept as they were applied."""

from __future__ import annotations

import copy

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

    def __init__(self, kinds=GKM):
        self.kinds = kinds
        self.objects = {}
        self.requests = []
        self.refusals = {}
        self.lingering = {}
        self.deleted = {}

    async def get(self, path):
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

    async def patch(self, path, body, *, kind, query):
        assert kind == "apply"
        assert query["fieldManager"] == "accelkit-examples"
        self.requests.append(("PATCH", path, query.get("dryRun", "")))
        waiting = self.refusals.get(path.rsplit("/", 1)[1])
        if waiting and (refusal := waiting.pop(0)):
            raise refusal
        if "dryRun" not in query:
            self.objects[path] = copy.deepcopy(body)
        return msgspec.json.encode(body)

    async def delete(self, path, body):
        assert body == {"propagationPolicy": "Foreground"}
        self.requests.append(("DELETE", path, ""))
        if path not in self.objects:
            raise ApiError("not found", status=404, reason="NotFound")
        self.deleted[path] = self.lingering.get(path.split("/")[-2], 0)
        return b"{}"
