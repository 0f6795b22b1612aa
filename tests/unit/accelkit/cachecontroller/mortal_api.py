"""An API server in memory that sees the controller die at one of its writes, and others that work on its objects."""

from __future__ import annotations

import itertools

from fake_api.server import FakeApi, Request
from pretended_cluster import Cluster

from accelkit.cachecontroller.cluster_view import CLAIMS, JOBS, VOLUMES, Kind, ObjectName, ObservedObject
from accelkit.cachecontroller.filling.objects import CONFIG_MAPS, DAEMON_SETS, SNAPSHOTS
from accelkit.kube.paths import build_collection_path, build_object_path

# Of what controllers of ours make beside caches and events.
KINDS = {(each.api_version, each.kind): each for each in (CLAIMS, VOLUMES, JOBS, CONFIG_MAPS, DAEMON_SETS, SNAPSHOTS)}


class Killed(BaseException):
    """As by SIGKILL: nothing of ours runs any more."""


class Api(FakeApi):
    """An API server in memory, which sees the process die at one of its writes.

    Attributes:
        written: how many writes took effect.
        die_at: the write at which the process dies.
        late: whether it dies after that write took effect.
        protects: whether finalizers of Kubernetes keep claims and their volumes after they were deleted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count(1)
        self.written, self.die_at, self.late, self.protects = 0, 0, False, False
        self.before.append(self._begin)
        self.after.append(self._end)
        self.cluster = Cluster()
        # What an administrator has made.
        self._given = dict(self.cluster.objects)

    def _begin(self, request: Request) -> None:
        if request.method == "POST":
            request.body["metadata"]["uid"] = f"uid-{next(self.numbers)}"
        if request.method != "GET" and not self.late and self.written + 1 == self.die_at:
            self.written += 1
            raise Killed

    def _end(self, request: Request) -> None:
        if request.method == "GET":
            return
        self.written += 1
        metadata = self.objects.get(request.path, {}).get("metadata", {})
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            del self.objects[request.path]
        if self.late and self.written == self.die_at:
            raise Killed

    async def delete(self, path: str, body: object | None = None) -> bytes:
        present = self.objects.get(path, {})
        if self.protects and present.get("kind") in {CLAIMS.kind, VOLUMES.kind}:
            return await self.patch(
                path, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}}
            )
        try:
            return await super().delete(path, body)
        finally:
            # Of the claim that it is for, a volume is deleted with it, whether or not we live to see that.
            uid = present.get("metadata", {}).get("uid")
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
