"""A cluster of nodes in memory, with what the API server and kubelets do of it; requests may be cut off after any."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec

from accelkit.errors import ApiError
from accelkit.model.card import Card, Health
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import CORDON_KEY, INVENTORY_ANNOTATION, REMEDIATION_ANNOTATION
from accelkit.model.pod import PodRef
from accelkit.remediation.controller import Controller
from accelkit.remediation.deciding.actions import (
    Action,
    CreateJob,
    Evict,
    NodeEvent,
    PodEvent,
    WriteCondition,
    WriteNode,
)
from accelkit.remediation.deciding.isolation import has_word
from accelkit.remediation.deciding.record import CardRecord, RemediationStep, read_record
from accelkit.remediation.deciding.settings import Mode, RemediationSettings
from accelkit.remediation.deciding.views import JobState, PodWithCard, RemediationNode
from accelkit.remediation.metrics import RemediationMetrics
from accelkit.remediation.node_writes import build_condition_patch, build_node_patch
from accelkit.remediation.nodes import NodeObject, NodeSummary, summarise, view_node

READY = {"type": "Ready", "status": "True"}
DRAIN = "xid 79 at 1.0"
RESETTING = RemediationSettings(mode=Mode.ON, reset_job="reset", max_unavailable=1.0, trip_share=1.0)


class KilledError(Exception):
    """The process ended here."""


@dataclass
class SimNode:
    """One node as JSON, and what only its agent and kubelet know."""

    name: str
    cards: dict[str, Card]
    annotations: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    conditions: list[dict[str, str]] = field(default_factory=lambda: [dict(READY)])
    unschedulable: bool = False
    watched: bool = True
    version: int = 1
    pods: dict[PodRef, tuple[str, int]] = field(default_factory=dict)
    unplaced: tuple[PodWithCard, ...] = ()

    def show(self) -> NodeObject:
        """Return the node as the API server shows it."""
        inventory = encode_inventory(Inventory(1 << 30, tuple(self.cards.values())))
        metadata = {
            "name": self.name,
            "uid": f"uid-{self.name}",
            "resourceVersion": str(self.version),
            "annotations": {**self.annotations, INVENTORY_ANNOTATION: inventory},
        }
        spec = {"taints": self.taints or None, "unschedulable": self.unschedulable}
        shown = {"metadata": metadata, "spec": spec, "status": {"conditions": self.conditions}}
        return msgspec.convert(shown, NodeObject)

    @property
    def state(self) -> object:
        """All that remediation may write, by value."""
        conditions = sorted((each["type"], each["status"]) for each in self.conditions)
        return dict(self.annotations), list(self.taints), conditions, self.unschedulable


def make_metrics() -> RemediationMetrics:
    """Return the metrics of a service that leads, and of which nothing else is looked at."""
    return RemediationMetrics(
        leads=lambda: True,
        nodes=lambda: 0,
        called=lambda: 0,
        breaker=lambda: False,
        unreadable=lambda: 0,
        silent_seconds=lambda: 0.0,
    )


class SimCluster:
    """Nodes, a clock, and the writer, reader and store of a controller."""

    def __init__(self, sizes: Iterable[int], settings: RemediationSettings | None = None) -> None:
        self.nodes = {
            f"n{place}": SimNode(f"n{place}", {f"GPU-{each}": make_card(f"GPU-{each}") for each in range(size)})
            for place, size in enumerate(sizes)
        }
        self.settings = settings or RemediationSettings(mode=Mode.ON, max_unavailable=0.5, trip_share=1.0)
        self.now = 1000.0
        self.why: str | None = None
        self.done: list[tuple[str, Action]] = []
        self.jobs: dict[str, JobState] = {}
        self.refused: set[PodRef] = set()
        self.left: int | None = None
        self.start()

    def start(self) -> None:
        """Start a service anew: all that it had in memory is gone."""
        self.metrics = make_metrics()
        self.controller = Controller(
            self.summarise,
            self,
            self,
            Breakers(self),
            settings=self.settings,
            metrics=self.metrics,
            ready=lambda: True,
            silent_seconds=lambda: 0.0,
            clock=lambda: self.now,
            wall=lambda: self.now,
        )

    async def run_pass(self, *, after: float = 10.0, writes: int | None = None) -> None:
        """Let time go by and one pass run; the process ends after so many requests that change something."""
        self.now += after
        self.left = writes
        try:
            await self.controller.run_pass()
        except KilledError:
            self.start()
        finally:
            self.left = None

    async def run_passes(self, count: int, *, after: float = 10.0) -> None:
        """Let so many whole passes run."""
        for _ in range(count):
            await self.run_pass(after=after)

    def summarise(self) -> list[NodeSummary]:
        return [summarise(node.show()) for node in self.nodes.values()]

    @property
    def under(self) -> int:
        """How many nodes have cards under remediation."""
        return sum(each.active for each in self.summarise())

    async def read(self, name: str) -> RemediationNode | None:
        node = self.nodes[name]
        holders: dict[str, tuple[PodWithCard, ...]] = {}
        for pod, (card, priority) in node.pods.items():
            holders[card] = (*holders.get(card, ()), PodWithCard(pod, priority))
        return replace(
            view_node(node.show()),
            holders=holders,
            unplaced=node.unplaced,
            observed=frozenset(holders),
            watched=node.watched,
            jobs=dict(self.jobs),
        )

    async def carry_out(self, view: RemediationNode, actions: tuple[Action, ...]) -> None:
        node, version = self.nodes[view.name], view.version
        for action in actions:
            if self.left == 0:
                raise KilledError
            if isinstance(action, WriteNode | WriteCondition):
                if version != str(node.version):
                    raise ApiError("changed", status=409, reason="Conflict")
                node.version += 1
                version = str(node.version)
            self._do(node, action)
            self.done.append((node.name, action))
            self.left = None if self.left is None else self.left - 1

    def _do(self, node: SimNode, action: Action) -> None:
        match action:
            case WriteNode():
                patch = build_node_patch(action)
                merged = {**node.annotations, **patch["metadata"]["annotations"]}
                node.annotations = {key: value for key, value in merged.items() if value is not None}
                if "spec" in patch:
                    node.taints = patch["spec"]["taints"] or []
            case WriteCondition():
                (condition,) = build_condition_patch(action)["status"]["conditions"]
                node.conditions = [each for each in node.conditions if each["type"] != condition["type"]]
                if "$patch" not in condition:
                    node.conditions.append({key: condition[key] for key in ("type", "status", "reason", "message")})
            case Evict(pod):
                if pod not in self.refused:
                    node.pods.pop(pod, None)
            case CreateJob(name, card):
                assert all(held != card for held, _ in node.pods.values()), "a pod holds the card that is reset"
                self.jobs[name] = JobState.RUNNING
            case NodeEvent() | PodEvent():
                pass

    def fail(self, node: str, card: str, *, fault: str = "", reason: str = "the card is gone") -> None:
        self._set(node, card, health=Health.UNHEALTHY, fault=fault, health_reason=reason)

    def mend(self, node: str, card: str) -> None:
        self._set(node, card, health=Health.HEALTHY, fault="", health_reason="")

    def lose_sight(self, node: str, card: str) -> None:
        self._set(node, card, health=Health.UNKNOWN)

    def bind(self, node: str, card: str, name: str, priority: int = 0) -> bool:
        """Place a pod as the extender would: neither on a failed card nor on one that is cordoned."""
        at = self.nodes[node]
        if at.cards[card].health is Health.UNHEALTHY or has_word(at.annotations.get(CORDON_KEY), card):
            return False
        at.pods[PodRef("a", name, f"{node}-{name}")] = (card, priority)
        return True

    def list_done(self, type_: type) -> list[Action]:
        return [action for _, action in self.done if isinstance(action, type_)]

    def _set(self, node: str, card: str, **changes: object) -> None:
        at = self.nodes[node]
        at.cards[card] = msgspec.structs.replace(at.cards[card], **changes)
        at.version += 1


class Breakers:
    """Remembers the breaker of a cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster

    async def read(self) -> str | None:
        return self._cluster.why

    async def write(self, why: str) -> None:
        self._cluster.why = why


def make_card(name: str) -> Card:
    """Return a healthy card."""
    return Card(name, "nvidia", "H100", 80 << 30)


def make_taint(value: str) -> dict[str, str]:
    """Return a taint of somebody else."""
    return {"key": f"example.org/{value}", "value": value, "effect": "NoSchedule"}


def make_failed(settings: RemediationSettings | None = None, *, fault: str = DRAIN) -> SimCluster:
    """Return a cluster of two nodes with a card each, of which the first one's has failed."""
    cluster = SimCluster([1, 1], settings)
    cluster.fail("n0", "GPU-0", fault=fault)
    return cluster


def find_card(cluster: SimCluster, card: str = "GPU-0", node: str = "n0") -> CardRecord | None:
    """Return how far a card has come; None where it is not under remediation."""
    record = read_record(cluster.nodes[node].annotations.get(REMEDIATION_ANNOTATION))
    assert record is not None
    return record.cards.get(card)


async def run_until(cluster: SimCluster, step: RemediationStep, *, most: int = 20) -> CardRecord:
    """Let passes run until the card has come to a step."""
    for _ in range(most):
        if (found := find_card(cluster)) is not None and found.step is step:
            return found
        await cluster.run_pass()
    raise AssertionError(f"{step} was not reached")
