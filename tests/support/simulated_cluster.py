"""A ledger with nodes and pods, and a simulator beside the verbs that it speaks of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from accelkit.extender.simulation.simulator import Simulator
from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args, FilterResult
from accelkit.inspection.simulation import NodeSimulation, Simulation, SimulationQuestion
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pending_pod import PendingPod
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects
from support.pods import build_container, build_pod, make_ref

GIB = 2**30


class SimulatedCluster:
    """Nodes of two cards of 16 GiB each; amounts are in GiB."""

    def __init__(self, policy: Policy = Policy.BINPACK) -> None:
        self.ledger = Ledger(unit_bytes=GIB)
        self.feed = LedgerFeed(self.ledger, load_dialects(["native", "gcushare", "gas"]))
        self.verbs = Verbs(self.ledger, self.feed, policy)
        self.simulator = Simulator(self.ledger, self.feed, self.verbs)

    def node(self, name: str, *held: int, cards: int = 2, **of_card: Any) -> None:
        """Put a node, with a pod of each amount on it, 0 for a whole card; pods are `NODE-0`, `NODE-1`…."""
        numbered = [Card(f"{name}.{n}", "v", "m", 16 * GIB, index=n) for n in range(cards)]
        numbered[0] = msgspec.structs.replace(numbered[0], **of_card)
        self.ledger.put_node(name, Inventory(GIB, tuple(numbered)))
        for number, memory in enumerate(held):
            request = PodRequest((ContainerRequest("c", Kind.APP, 1, memory * GIB, whole=not memory),))
            self.ledger.reserve(make_ref(f"{name}-{number}"), name, request, Policy.BINPACK)

    async def ask(
        self, pod: dict[str, Any], nodes: list[str] | None = None, without: tuple[str, ...] = ()
    ) -> Simulation:
        question = SimulationQuestion(msgspec.convert(pod, PendingPod), nodes, list(without))
        return msgspec.json.decode(await self.simulator.simulate(question), type=Simulation)

    async def look(self, pod: dict[str, Any], node: str, without: tuple[str, ...] = ()) -> NodeSimulation:
        """Ask about one node."""
        (found,) = (await self.ask(pod, [node], without)).nodes
        return found

    async def filter(self, pod: dict[str, Any], nodes: list[str]) -> FilterResult:
        return await self.verbs.filter(Args(msgspec.convert(pod, PendingPod), NodeNames=nodes))


def make_pod(memory: int = 0, *, cards: int = 0, uid: str = "uid-p", **more: Any) -> dict[str, Any]:
    """A pod of one container; `limits`, `annotations`, `request` and further `containers` by their limits."""
    limits = more.get("limits") or ({"accelkit.io/memory": memory} if memory else {"accelkit.io/cards": cards})
    named: Mapping[str, Any] = {"c": limits, **more.get("containers", {})}
    annotations = dict(more.get("annotations", {}))
    if "request" in more:
        annotations["accelkit.io/request"] = json.dumps(more["request"])
    containers = [build_container(each, name) for name, each in named.items()]
    return build_pod("p", *containers, metadata={"uid": uid, "annotations": annotations})
