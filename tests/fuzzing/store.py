"""An API server that keeps pods, with no more rules than Bindings and corrections need: it is asked a million times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient, PatchKind
from accelkit.kube.connection import Connection
from accelkit.kube.paths import build_pod_path


class Store(ApiClient):
    """Pods by path.

    Attributes:
        fails: whether the next write is refused.
        written: how many writes took effect.
    """

    def __init__(self) -> None:
        super().__init__(Connection("https://nowhere", None))
        self.fails = False
        self.written = 0
        self._pods: dict[str, dict[str, Any]] = {}

    def keep(self, pod: dict[str, Any]) -> None:
        """Keep a pod, which goes on belonging to the caller."""
        self._pods[_path(pod)] = pod

    def forget(self, pod: dict[str, Any]) -> None:
        """Forget a pod."""
        del self._pods[_path(pod)]

    async def get(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,  # noqa: ARG002 - the client's signature
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - the client's signature
    ) -> bytes:
        """Return a pod, or all of them."""
        if path.endswith("/pods"):
            return json.dumps({"metadata": {"resourceVersion": "1"}, "items": list(self._pods.values())}).encode()
        return json.dumps(self._find(path)).encode()

    async def get_page(self, path: str, *, query: Mapping[str, str], max_bytes: int, accept: str = "") -> bytes:  # noqa: ARG002 - the client's signature
        """Return all pods."""
        return await self.get(path, query=query)

    async def post(
        self,
        path: str,
        body: object,
        *,
        query: Mapping[str, str] | None = None,  # noqa: ARG002 - the client's signature
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - the same
    ) -> bytes:
        """Bind a pod; Events are taken as they are."""
        self._refuse()
        pod_path, _, word = path.rpartition("/")
        if word == "binding" and isinstance(body, dict):
            pod = self._find(pod_path)
            if pod["spec"].get("nodeName"):
                raise ApiError("it is assigned already", status=409, reason="Conflict")
            pod["spec"]["nodeName"] = body["target"]["name"]
            _annotate(pod, body["metadata"].get("annotations", {}))
        return b"{}"

    async def patch(
        self,
        path: str,
        body: object,
        *,
        kind: PatchKind = "merge",  # noqa: ARG002 - the client's signature
        query: Mapping[str, str] | None = None,  # noqa: ARG002 - the client's signature
    ) -> bytes:
        """Annotate a pod."""
        self._refuse()
        pod = self._find(path)
        if isinstance(body, dict):
            _annotate(pod, body["metadata"].get("annotations", {}))
        return json.dumps(pod).encode()

    def _refuse(self) -> None:
        if self.fails:
            self.fails = False
            raise ApiError("no", status=409, reason="Conflict")
        self.written += 1

    def _find(self, path: str) -> dict[str, Any]:
        if path not in self._pods:
            raise ApiError("not found", status=404, reason="NotFound")
        return self._pods[path]


def _path(pod: dict[str, Any]) -> str:
    return build_pod_path(pod["metadata"]["namespace"], pod["metadata"]["name"])


def _annotate(pod: dict[str, Any], annotations: Mapping[str, str | None]) -> None:
    merged = {**(pod["metadata"].get("annotations") or {}), **annotations}
    pod["metadata"]["annotations"] = {key: value for key, value in merged.items() if value is not None}
