"""An API server in memory, spoken to as an ApiClient: objects by path, under the API server's own rules."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec
from fake_api.patches import PatchError, apply_operations, merge, merge_strategically
from fake_api.places import Place, place, selected

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient, PatchKind
from accelkit.kube.connection import Connection


@dataclass(frozen=True)
class Request:
    """A request that arrived."""

    method: str
    path: str
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    kind: PatchKind | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Failure:
    error: ApiError
    method: str
    path: str
    times: int | None
    answered: bool


Hook = Callable[[Request], Awaitable[None] | None]


class FakeApi(ApiClient):
    """Keeps objects; a write needs the UID and the resource version that it names, and creates nothing twice.

    Attributes:
        objects: by path. Whoever changes one by hand, as a kubelet does, gives it a new resource version.
        documents: what else is read, by path: the kinds of a group, logs, `/readyz`.
        reviews: what answers a POST that creates nothing, by path: reviews, and tokens.
        requests: those that arrived, refused ones too.
        done: those that took effect.
        before: called with each request before it takes effect.
        after: called with each request that took effect, before its answer leaves.
        lingering: how many further GETs show a deleted object, by plural; -1 for ever.
    """

    def __init__(self) -> None:
        super().__init__(Connection("https://fake", None))
        self.objects: dict[str, dict[str, Any]] = {}
        self.documents: dict[str, object] = {"/readyz": b"ok"}
        self.reviews: dict[str, Callable[[Request], object]] = {}
        self.requests: list[Request] = []
        self.done: list[Request] = []
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.lingering: dict[str, int] = {}
        self._failures: list[_Failure] = []
        self._deleted: dict[str, int] = {}
        self._versions: dict[str, tuple[int, bytes]] = {}
        self._version = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Keep everything."""

    @property
    def writes(self) -> list[Request]:
        """The requests that may change something."""
        return [request for request in self.requests if request.method != "GET"]

    def store(self, collection: str, item: Mapping[str, Any]) -> dict[str, Any]:
        """Put an object into a collection, below its own namespace where it has one; return it."""
        at = place(collection)
        metadata = item["metadata"]
        namespace = at.namespace or metadata.get("namespace", "")
        path = Place(at.root, namespace, at.plural, metadata["name"], "").object_path
        self.objects[path] = copy.deepcopy(dict(item))
        return self.objects[path]

    def fail(
        self, error: ApiError, method: str = "", path: str = "", *, times: int | None = 1, answered: bool = False
    ) -> None:
        """Let the next requests fail.

        Args:
            error: what they raise.
            method: which ones; empty for any.
            path: what their path contains.
            times: how many; None until `recover`.
            answered: whether they take effect first, so that only the answer is lost.
        """
        self._failures.append(_Failure(error, method, path, times, answered))

    def recover(self) -> None:
        """Forget the failures that are still to come."""
        self._failures.clear()

    async def get(
        self, path: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Return an object, a collection or a document."""
        request = await self._arrive("GET", path, None, query, headers=headers)
        answer = self._read(request)
        await self._leave(request)
        return answer

    async def get_page(self, path: str, *, query: Mapping[str, str], max_bytes: int, accept: str = "") -> bytes:  # noqa: ARG002 - the client's signature
        """Return a collection."""
        return await self.get(path, query=query)

    async def post(
        self,
        path: str,
        body: object,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Create an object, bind a pod, or have something reviewed."""
        request = await self._arrive("POST", path, body, query, headers=headers)
        if path in self.reviews:
            answer = msgspec.json.encode(self.reviews[path](request))
        else:
            answer = self._bind(request) if place(path).subresource == "binding" else self._create(request)
        await self._leave(request)
        return answer

    async def put(self, path: str, body: object, *, query: Mapping[str, str] | None = None) -> bytes:
        """Replace an object."""
        request = await self._arrive("PUT", path, body, query)
        self._require(path, request.body["metadata"])
        answer = self._keep(path, request.body)
        await self._leave(request)
        return answer

    async def patch(
        self, path: str, body: object, *, kind: PatchKind = "merge", query: Mapping[str, str] | None = None
    ) -> bytes:
        """Change an object."""
        request = await self._arrive("PATCH", path, body, query, kind)
        answer = self._patch(request)
        await self._leave(request)
        return answer

    async def delete(self, path: str, body: object | None = None) -> bytes:
        """Delete an object."""
        request = await self._arrive("DELETE", path, body, None)
        self._require(path, (request.body or {}).get("preconditions", {}))
        linger = self.lingering.get(place(path).plural, 0)
        if linger:
            self._deleted.setdefault(path, linger)
        else:
            del self.objects[path]
        await self._leave(request)
        return b"{}"

    async def _arrive(
        self,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, str] | None,
        kind: PatchKind | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Request:
        decoded = msgspec.json.decode(msgspec.json.encode(body))
        request = Request(method, path, decoded, dict(query or {}), kind, dict(headers or {}))
        self.requests.append(request)
        await _call(self.before, request)
        self._raise_failure(request, answered=False)
        return request

    async def _leave(self, request: Request) -> None:
        self.done.append(request)
        await _call(self.after, request)
        self._raise_failure(request, answered=True)

    def _raise_failure(self, request: Request, *, answered: bool) -> None:
        for failure in self._failures:
            fits = failure.method in {"", request.method} and failure.path in request.path
            if not fits or failure.answered != answered:
                continue
            if failure.times is not None:
                failure.times -= 1
                if not failure.times:
                    self._failures.remove(failure)
            raise failure.error

    def _read(self, request: Request) -> bytes:
        path = request.path
        if path in self.documents:
            document = self.documents[path]
            return document if isinstance(document, bytes) else msgspec.json.encode(document)
        at = place(path)
        if at.plural and not at.name:
            items = [self._shown(each) for each in list(self.objects) if at.holds(place(each))]
            shown = [each for each in items if selected(each, request.query)]
            return msgspec.json.encode({"metadata": {"resourceVersion": str(self._version)}, "items": shown})
        if path in self._deleted:
            if self._deleted[path] == 0:
                del self._deleted[path], self.objects[path]
            else:
                self._deleted[path] -= 1
        self._require(path, {})
        return msgspec.json.encode(self._shown(path))

    def _create(self, request: Request) -> bytes:
        at, item = place(request.path), request.body
        if at.namespace:
            item["metadata"].setdefault("namespace", at.namespace)
        path = f"{at.collection_path}/{item['metadata']['name']}"
        if path in self.objects:
            raise ApiError(f'"{item["metadata"]["name"]}" already exists', status=409, reason="AlreadyExists")
        return self._keep(path, item)

    def _bind(self, request: Request) -> bytes:
        path, binding = place(request.path).object_path, request.body
        self._require(path, binding["metadata"])
        pod = self.objects[path]
        if pod["spec"].get("nodeName"):
            raise ApiError(f"pod is already assigned to node {pod['spec']['nodeName']}", status=409, reason="Conflict")
        pod["spec"]["nodeName"] = binding["target"]["name"]
        pod["metadata"].setdefault("annotations", {}).update(binding["metadata"].get("annotations", {}))
        return b"{}"

    def _patch(self, request: Request) -> bytes:
        path = place(request.path).object_path
        if request.kind == "apply":
            if not request.query.get("fieldManager"):
                raise ApiError("fieldManager is required for apply patch", status=400, reason="BadRequest")
            changed = merge(self.objects.get(path, {}), request.body)
        elif request.kind == "json":
            self._require(path, {})
            changed = copy.deepcopy(self.objects[path])
            try:
                apply_operations(changed, request.body)
            except PatchError as exc:
                raise ApiError(str(exc), status=422, reason="Invalid") from exc
        else:
            self._require(path, request.body.get("metadata", {}))
            merged = merge_strategically if request.kind == "strategic" else merge
            changed = merged(self.objects[path], request.body)
        if request.query.get("dryRun") == "All":
            return msgspec.json.encode(changed)
        return self._keep(path, changed)

    def _require(self, path: str, preconditions: Mapping[str, Any]) -> None:
        """Refuse a request for an object that is not there, or not the one that was meant."""
        if path not in self.objects:
            name = path.rpartition("/")[2]
            raise ApiError(f'{place(path).plural} "{name}" not found', status=404, reason="NotFound")
        metadata = self._shown(path)["metadata"]
        for key in ("uid", "resourceVersion"):
            if preconditions.get(key) and preconditions[key] != metadata.get(key):
                raise ApiError(f"the {key} is {metadata.get(key)}", status=409, reason="Conflict")

    def _keep(self, path: str, item: dict[str, Any]) -> bytes:
        item = copy.deepcopy(item)
        item["metadata"].pop("resourceVersion", None)
        self.objects[path] = item
        return msgspec.json.encode(self._shown(path))

    def _shown(self, path: str) -> dict[str, Any]:
        """Return an object as it is answered, with its resource version."""
        item = self.objects[path]
        content = msgspec.json.encode(item)
        version, before = self._versions.get(path, (0, b""))
        if content != before:
            self._version += 1
            version = self._version
            self._versions[path] = version, content
        return {**item, "metadata": {"resourceVersion": str(version), **item["metadata"]}}


async def _call(hooks: list[Hook], request: Request) -> None:
    for hook in hooks:
        waiting = hook(request)
        if waiting is not None:
            await waiting
