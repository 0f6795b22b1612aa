"""An API server in memory that sees the controller die at one of its writes, and others that work on its objects."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from pretended_cluster import Cluster

from accelkit.cachecontroller.cluster_view import CLAIMS, JOBS, VOLUMES, Kind, ObjectName, ObservedObject
from accelkit.cachecontroller.filling.objects import CONFIG_MAPS, DAEMON_SETS, SNAPSHOTS
from accelkit.errors import ApiError
from accelkit.kube.paths import build_collection_path, build_object_path

# Of what controllers of ours make beside caches and events.
KINDS = {(each.api_version, each.kind): each for each in (CLAIMS, VOLUMES, JOBS, CONFIG_MAPS, DAEMON_SETS, SNAPSHOTS)}


class Killed(BaseException):
    """As by SIGKILL: nothing of ours runs any more."""


class Api:
    """An API server in memory, which sees the process die at one of its writes."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.numbers = itertools.count(1)
        self.die_at, self.late, self.writes = 0, False, 0
        # Whether finalizers of Kubernetes keep claims and their volumes after they were deleted.
        self.protects = False
        self.cluster = Cluster()
        # What an administrator has made.
        self._given = dict(self.cluster.objects)

    def write(self, path: str, body: dict[str, Any] | None) -> bytes:
        self.writes += 1
        dies = self.writes == self.die_at
        if dies and not self.late:
            raise Killed
        if body is None:
            del self.objects[path]
        else:
            body["metadata"]["resourceVersion"] = str(next(self.numbers))
            self.objects[path] = body
        if dies:
            raise Killed
        return msgspec.json.encode(body)

    async def get(self, path: str) -> bytes:
        if path not in self.objects:
            raise ApiError("there is none", status=404, reason="NotFound")
        return msgspec.json.encode(self.objects[path])

    async def post(self, collection: str, body: object) -> bytes:
        made = msgspec.json.decode(msgspec.json.encode(body))
        path = f"{collection}/{made['metadata']['name']}"
        if path in self.objects:
            raise ApiError("it is there", status=409, reason="AlreadyExists")
        made["metadata"]["uid"] = f"uid-{next(self.numbers)}"
        return self.write(path, made)

    async def patch(self, path: str, body: Any, *, kind: str = "merge") -> bytes:
        path = path.removesuffix("/status")
        present = msgspec.json.decode(await self.get(path))
        if kind == "json":
            present["status"] = msgspec.json.decode(msgspec.json.encode(body[1]["value"]))
        else:
            merge(present, msgspec.json.decode(msgspec.json.encode(body)))
        if present["metadata"].get("deletionTimestamp") and not present["metadata"].get("finalizers"):
            return self.write(path, None)
        return self.write(path, present)

    async def delete(self, path: str, options: dict[str, Any]) -> bytes:
        present = msgspec.json.decode(await self.get(path))
        uid = present["metadata"]["uid"]
        assert uid == options["preconditions"]["uid"]
        if self.protects and present.get("kind") in {CLAIMS.kind, VOLUMES.kind}:
            present["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            return self.write(path, present)
        try:
            return self.write(path, None)
        finally:
            # Of the claim that it is for, a volume is deleted with it, whether or not we live to see that.
            for other, each in list(self.objects.items()) if path not in self.objects else ():
                if each.get("kind") == VOLUMES.kind and each["spec"].get("claimRef", {}).get("uid") == uid:
                    del self.objects[other]

    def remove_finalizers(self) -> None:
        """Remove the claims and volumes that were deleted, as kube-controller-manager does when no pod uses them."""
        for path, each in list(self.objects.items()):
            if each.get("kind") in {CLAIMS.kind, VOLUMES.kind} and each["metadata"].get("deletionTimestamp"):
                del self.objects[path]

    def show(self, kind: Kind) -> list[ObservedObject]:
        """What a watch of a kind brings, by its selector."""
        self._load()
        return [seen for _, seen in self.cluster.list_all(kind)]

    def turn(self) -> bool:
        """Let provisioner, binder, Jobs and DaemonSets do what they can do now; whether that was anything."""
        self._load()
        before = repr(self.cluster.objects)
        self.cluster.turn()
        for name, each in self.cluster.objects.items():
            if name.kind is DAEMON_SETS:
                each["status"] = {"numberReady": 1, "desiredNumberScheduled": 2}
            elif name.kind is VOLUMES and each["spec"].get("claimRef", {}).get("uid"):
                each["status"] = {"phase": "Bound"}
            if name not in self._given:
                each |= {"apiVersion": name.kind.api_version, "kind": name.kind.kind}
                self.objects[_build_path(name)] = each
        return repr(self.cluster.objects) != before

    def _load(self) -> None:
        self.cluster.objects = dict(self._given)
        for each in self.objects.values():
            kind = KINDS.get((each.get("apiVersion", ""), each.get("kind", "")))
            if kind is not None:
                meta = each["metadata"]
                self.cluster.objects[ObjectName(kind, meta["name"], meta.get("namespace", ""))] = each


def _build_path(name: ObjectName) -> str:
    collection = build_collection_path(name.kind.api_version, name.kind.plural, name.namespace or None)
    return build_object_path(collection, name.name)


def merge(into: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = value
