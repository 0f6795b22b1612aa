"""Writer for the node's reports: one GKMCacheNode per namespace, and the ClusterGKMCacheNode."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from accelkit.back_off import BackOff
from accelkit.cacheagent.reporting.bounds import bound_report
from accelkit.cacheagent.reporting.status_patch import build_status_patch
from accelkit.errors import ApiError
from accelkit.gkm import names
from accelkit.gkm.names import API
from accelkit.gkm.objects import CacheNode, NodeStatus
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import delete_if_present
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.model.keys import HOSTNAME_LABEL
from accelkit.reporting import OnceReporter

log = logging.getLogger(__name__)

# One request contains all changes within this time. The cost of a write grows with the number of caches in the
# namespace, so the writer pauses for a multiple of the time that the write took.
_GATHER_SECONDS: Final = 0.05
_LONGEST_LABEL: Final = 63
_REST: Final = 3.0
_MOST_REST_SECONDS: Final = 2.0
_BACK_OFF: Final = BackOff(1.0, 30.0)

_report = msgspec.json.Decoder(CacheNode)


@dataclass(frozen=True)
class _Failing:
    failures: int = 0
    retry_at: float = 0.0

    def again(self) -> _Failing:
        failures = self.failures + 1
        return _Failing(failures, time.monotonic() + _BACK_OFF.compute(failures))


class ReportWriter:
    """Writer that updates the node's reports to their desired content.

    Args:
        api: open client.
        node: name of this node.
        known: latest known reports from the API server, keyed by namespace. Watches and responses to writes update the
            reports.
        on_failure: callback that is called after a failed write.
    """

    def __init__(
        self, api: ApiClient, node: str, known: dict[str, NodeStatus], on_failure: Callable[[], None] = lambda: None
    ) -> None:
        self._api, self._node, self._known = api, node, known
        self._on_failure = on_failure
        self._desired: Mapping[str, NodeStatus] | None = None
        self._node_uid = ""
        self._wake = asyncio.Event()
        self._errors, self._bounds = OnceReporter(log), OnceReporter(log)

    def offer(self, desired: Mapping[str, NodeStatus], node_uid: str) -> None:
        """Set the desired reports, keyed by namespace. Reports in other namespaces are deleted."""
        self._desired, self._node_uid = desired, node_uid
        self._wake.set()

    async def run(self) -> None:
        """Write reports until cancelled, with retries after failures."""
        # Each namespace is handled separately, because a failure in one namespace, for example during its deletion,
        # must not delay other namespaces.
        failing: dict[str, _Failing] = {}
        took = 0.0
        while True:
            due = min((each.retry_at for each in failing.values()), default=math.inf)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due == math.inf else max(0.0, due - time.monotonic())):
                    await self._wake.wait()
            await asyncio.sleep(max(_GATHER_SECONDS, min(_MOST_REST_SECONDS, _REST * took)))
            self._wake.clear()
            began = time.monotonic()
            namespaces = sorted({*(self._desired or {}), *self._known})
            failing = {namespace: each for namespace, each in failing.items() if namespace in namespaces}
            for namespace in namespaces:
                former = failing.get(namespace, _Failing())
                if former.retry_at > time.monotonic():
                    continue
                if await self._try_write(namespace):
                    failing.pop(namespace, None)
                else:
                    failing[namespace] = former.again()
            took = time.monotonic() - began

    async def _try_write(self, namespace: str) -> bool:
        try:
            await self._write(namespace)
        except ApiError as exc:
            self._on_failure()
            self._errors.report(f"{namespace} {exc}", f"cannot write the report {_describe_place(namespace)}: {exc}")
            return False
        return True

    async def _write(self, namespace: str) -> None:
        desired, known = (self._desired or {}).get(namespace), self._known.get(namespace)
        collection = _find_collection(namespace)
        path = build_object_path(collection, self._node)
        if desired is None:
            if known is not None:
                await delete_if_present(self._api, path)
                self._known.pop(namespace, None)
            return
        bounded = bound_report(desired)
        if bounded.left_out:
            self._bounds.report(
                namespace, f"omitted {bounded.left_out} caches {_describe_place(namespace)}: the report is too large"
            )
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if known is None:
            known = await self._create(collection, namespace, path)
        patch = build_status_patch(known, bounded.status, now)
        if patch is None:
            return
        try:
            answer = await self._api.patch(f"{path}/status", patch)
        except ApiError as exc:
            if exc.not_found:
                self._known.pop(namespace, None)
            raise
        self._known[namespace] = _report.decode(answer).status

    async def _create(self, collection: str, namespace: str, path: str) -> NodeStatus:
        metadata: dict[str, Any] = {"name": self._node}
        if len(self._node) <= _LONGEST_LABEL:
            metadata["labels"] = {HOSTNAME_LABEL: self._node}
        if self._node_uid:
            # If no agent is running, Kubernetes deletes the report with the node.
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": self._node_uid}
            metadata["ownerReferences"] = [owner]
        if namespace:
            metadata["namespace"] = namespace
        kind = "GKMCacheNode" if namespace else "ClusterGKMCacheNode"
        try:
            answer = await self._api.post(collection, {"apiVersion": API, "kind": kind, "metadata": metadata})
        except ApiError as exc:
            if not exc.already_exists:
                raise
            answer = await self._api.get(path)
        return _report.decode(answer).status


def _describe_place(namespace: str) -> str:
    return f"of namespace {namespace}" if namespace else "of the cluster"


def _find_collection(namespace: str) -> str:
    if not namespace:
        return names.CLUSTER_CACHE_NODES
    return build_collection_path(API, "gkmcachenodes", namespace)
