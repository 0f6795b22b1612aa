"""Pod groups beside a binder on an API server in memory; kube-scheduler is whoever calls bind."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from fake_api.server import FakeApi, Request
from support.nodes import build_node
from support.requests import build_inventory

from accelkit.errors import AccelkitError
from accelkit.extender.binder import Binder
from accelkit.extender.groups.pod_groups import GroupTimes, PodGroups
from accelkit.extender.readiness import Readiness
from accelkit.extender.wire import BindingArgs
from accelkit.kube.events import Events
from accelkit.kube.paths import PODS, build_pod_path
from accelkit.kube.views.scheduling import SchedulingNode, SchedulingPod
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

GATE = {"name": "accelkit.io/pod-group"}
PATIENCE_SECONDS = 60.0


class World:
    """Nodes of one card of 16, and pods of one namespace; what is written is shown at once.

    Time passes for groups where a test says so.

    Attributes:
        leads: whether this replica decides.
        turns: how often all groups were looked at.
    """

    def __init__(self, *, api: FakeApi | None = None, times: GroupTimes | None = None) -> None:
        self._now, self.turns = 1000.0, 0
        self.api, self.ledger = api or FakeApi(), Ledger(unit_bytes=1)
        self.api.after = [self._show_written]
        self.feed = LedgerFeed(self.ledger, load_dialects(("native",)))
        self.leads = True
        readiness = Readiness(synced=lambda: True, silent_seconds=lambda: 0.0)
        self.groups = PodGroups(
            self.api,
            self.ledger,
            self.feed,
            Policy.BINPACK,
            events=Events(self.api, "accelkit-extender", "h"),
            times=times or GroupTimes(),
            decides=self._decides,
            is_under_way=lambda uid: self.binder.is_under_way(uid),  # noqa: PLW0108 - it is made later
            is_unsettled=lambda uid: self.binder.is_unsettled(uid),  # noqa: PLW0108 - the same
            clock=lambda: self._now,
        )
        self.binder = Binder(
            self.api, self.ledger, self.feed, Policy.BINPACK, readiness=readiness, admit=self.groups.admit
        )

    def node(self, name: str, cards: int = 1, *, kind: str = "ADDED", **body: Any) -> None:
        listed = build_inventory(*(f"{name}-{number}" for number in range(cards)))
        body["labels"] = {"name": name, **body.get("labels", {})}
        node = build_node(name, listed, **{"allocatable": {"cpu": "64", "memory": "64Gi"}, **body})
        self.groups.take_node_event(kind, msgspec.convert(node, SchedulingNode))

    def pod(
        self, name: str, group: str = "g", *, memory: int = 8, size: object = None, gated: bool = True, **body: Any
    ) -> None:
        namespace = body.get("namespace", "d")
        labels = {} if size is None else {"pod-group.scheduling.sigs.k8s.io/min-available": str(size)}
        labels |= {body.get("label", "pod-group.scheduling.sigs.k8s.io/name"): group} if group else {}
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels}
        metadata["creationTimestamp"] = body.get("created", "2026-01-01T00:00:00Z")
        limits = {"accelkit.io/memory": memory} if memory else {}
        container = {"name": "c", "resources": {"limits": limits, "requests": body.get("requests", {})}}
        spec = {"containers": [container], **body.get("spec", {})}
        if gated:
            spec["schedulingGates"] = [*body.get("gates", ()), dict(GATE)]
        pod = self.api.store(PODS, {"metadata": metadata, "spec": spec})
        if body.get("shown", True):
            self.show("ADDED", pod)

    def show(self, kind: str, pod: object) -> None:
        read = msgspec.convert(pod, SchedulingPod)
        self.feed.take_pod_event(kind, read)
        self.groups.take_pod_event(kind, read)

    def change(self, name: str, **labels: str) -> None:
        pod = self.find(name)
        pod["metadata"]["labels"] |= labels
        self.show("MODIFIED", pod)

    def delete(self, name: str) -> None:
        self.show("DELETED", self.api.objects.pop(build_pod_path("d", name)))

    def find(self, name: str, namespace: str = "d") -> dict[str, Any]:
        return self.api.objects[build_pod_path(namespace, name)]

    def _show_written(self, request: Request) -> None:
        path = request.path.removesuffix("/binding").removesuffix("/status")
        if request.method in {"PATCH", "POST"} and "/pods/" in path:
            self.show("MODIFIED", self.api.objects[path])

    async def bind(self, name: str, node: str, namespace: str = "d") -> str:
        """Bind a pod as kube-scheduler does; return the sentence that it reads, empty for success."""
        try:
            await self.binder.bind(BindingArgs(name, namespace, f"uid-{name}", node))
        except AccelkitError as exc:
            return str(exc)
        return ""

    def held(self) -> dict[str, str]:
        """The node of each pod that holds something."""
        entries = self.ledger.list_nodes()
        return {held.pod.name: entry.name for entry in entries for held in entry.holdings.values()}

    def gated(self) -> list[str]:
        pods = [each for path, each in self.api.objects.items() if "/pods/" in path]
        return sorted(pod["metadata"]["name"] for pod in pods if pod["spec"].get("schedulingGates"))

    def events(self) -> list[tuple[str, str, str]]:
        found = [each for path, each in self.api.objects.items() if "/events/" in path]
        return sorted({(each["involvedObject"]["name"], each["reason"], each["message"]) for each in found})

    async def until(self, question: Any) -> Any:
        """Ask until the answer is true."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (answer := question()):
            assert time.monotonic() < deadline, (self.held(), self.gated(), self.events())
            await asyncio.sleep(0.005)
        return answer

    async def reserve(self, names: str, **of_pods: Any) -> None:
        """Create the pods of a group, and wait until all of them hold their cards."""
        for name in names:
            self.pod(name, size=len(names), **of_pods)
        await self.until(lambda: set(names) <= self.held().keys())

    async def settled(self) -> None:
        """Wait until all that happened was looked at, and nothing more comes of it."""
        seen = self.turns
        await self.until(lambda: self.turns >= seen + 3)

    def pass_time(self, seconds: float) -> None:
        """Let time pass for groups, and have whoever waits look again."""
        self._now += seconds
        self.groups._changes.note()

    async def bind_for(self, seconds: float, **binds: str) -> list[str]:
        """Bind pods to nodes, and let time pass once they are answered or held; return what `bind` does for each."""
        tasks = [asyncio.create_task(self.bind(name, node)) for name, node in binds.items()]
        await self.settled()
        self.pass_time(seconds)
        return await asyncio.gather(*tasks)

    def _decides(self) -> bool:
        self.turns += 1
        return self.leads
