"""A node whose agent writes what the kubelet gave into the assignments of its pods."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from fake_api.server import FakeApi, Request

from accelkit.kube.events import Events
from accelkit.kube.paths import PODS, build_pod_path
from accelkit.model.assignment import Assignment, Share, decode_assignment
from accelkit.model.card import Card
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod
from accelkit.node.metrics import Metrics
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePods
from accelkit.node.reconciliation.observed_assignment import ContainerDevices
from accelkit.node.reconciliation.reconciler import Reconciler
from accelkit.vendors.dialects import load_dialect
from support.events import list_events
from support.pods import Json, build_pod

Shares: TypeAlias = dict[str, tuple[Share, ...]]


class ReconciledNode:
    """The pods of a node on an API server in memory, and what its kubelet shows of them.

    Attributes:
        held: the devices of containers by namespace and name of the pod, as the kubelet lists them.
        recorded: the devices of containers by UID of the pod, as the kubelet's checkpoint has them.
        written: the assignments that were written, by pod, in their order.
        wake: set by the agent's watch of pods.
    """

    def __init__(self, cards: str = "ab") -> None:
        self.api = FakeApi()
        self.api.after.append(self._note)
        self.metrics = Metrics()
        self.now = 0.0
        self.node: NodeCards | None = NodeCards({name: Card(name, "v", "m", 16, minor=5) for name in cards}, 1)
        self.held: dict[tuple[str, str], dict[str, ContainerDevices]] = {}
        self.recorded: dict[str, dict[str, ContainerDevices]] = {}
        self.written: list[tuple[str, Assignment]] = []
        self.wake = asyncio.Event()
        self.use("native")

    def use(self, name: str) -> None:
        """Have the agent serve a dialect."""
        dialect = load_dialect(name)
        self.resource = dialect.resources.memory
        self.pods = NodePods(self.api, "n", dialect, on_change=self.wake.set)
        if self.node is not None:
            self.pods.set_cards(self.node)
        self.reconciler = Reconciler(
            self.api,
            pods=self.pods,
            cards=lambda: self.node,
            events=Events(self.api, "agent", "n"),
            metrics=self.metrics,
            clock=lambda: self.now,
        )

    def put(
        self,
        name: str,
        *containers: Json,
        assigned: Shares | None = None,
        admitted: bool = True,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Put a pod onto the API server; the watch has not shown it yet."""
        metadata = {"annotations": annotations or {}}
        status = {"phase": "Running", **({"startTime": "2024-01-01T00:00:00Z"} if admitted else {})}
        pod = build_pod(name, *containers, assigned=assigned, metadata=metadata, status=status, nodeName="n", **spec)
        self.api.store(PODS, pod)

    def show(self, name: str) -> None:
        """Have the watch show a pod as it is."""
        self.pods.take(msgspec.convert(self.find(name), Pod))

    def find(self, name: str) -> Json:
        return self.api.objects[build_pod_path("d", name)]

    def find_shares(self, name: str) -> Shares | None:
        """Return what a pod's assignment gives its containers; None where it has no assignment."""
        text = self.find(name)["metadata"]["annotations"].get(ASSIGNMENT_ANNOTATION)
        return None if text is None else decode_assignment(text).containers

    def find_cards(self, name: str) -> dict[str, list[str]]:
        return {container: [share.card for share in held] for container, held in (self.find_shares(name) or {}).items()}

    @property
    def events(self) -> list[tuple[str, str, str]]:
        return list_events(self.api)

    async def reconcile(self) -> bool:
        return await self.reconciler.reconcile(self.held, self.recorded)

    def _note(self, request: Request) -> None:
        if request.method == "PATCH":
            name = request.path.rpartition("/")[2]
            text = self.find(name)["metadata"]["annotations"][ASSIGNMENT_ANNOTATION]
            self.written.append((name, decode_assignment(text)))
