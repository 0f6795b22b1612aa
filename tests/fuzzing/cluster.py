"""The extender's view of a cluster under objects and events of any kind, and the decisions made on it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from fuzzing.answers import check_filter, check_simulation, request_simulation
from fuzzing.ledger_checks import LedgerChecks
from fuzzing.objects import NODES, Objects
from fuzzing.rounds import FindingError, Tally, check_sentence
from fuzzing.store import Store
from fuzzing.values import GIB, draw_values

from accelkit.extender.binder import Binder
from accelkit.extender.foreign_inspect import make_foreign_inspects
from accelkit.extender.metrics import ExtenderMetrics
from accelkit.extender.preemption.verb import PreemptVerb
from accelkit.extender.readiness import Readiness
from accelkit.extender.routes import Routes
from accelkit.extender.simulation.simulator import Simulator
from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import BindingResult, FilterResult, HostPriority
from accelkit.kube.listing import UNREADABLE
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.freed import FreedNodes
from accelkit.ledger.holding import ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import ConfigMap, Node, Pod
from accelkit.placement.policies import MAX_SCORE, Policy
from accelkit.vendors.dialects import load_dialects

_pod = msgspec.json.Decoder(Pod)
_node = msgspec.json.Decoder(Node)
_config_map = msgspec.json.Decoder(ConfigMap)


class ClusterRound:
    """One cluster from its first object to its last.

    Args:
        rng: all that happens follows from its seed.
        dialect: which other system's pods there are beside accelkit's own.
    """

    def __init__(self, rng: random.Random, dialect: str) -> None:
        self.tally = Tally()
        self._values = values = draw_values(rng)
        dialects = load_dialects((dialect, "native"))
        self._objects = Objects(values, dialects[0])
        unit_bytes = values.one((*(GIB,) * 9, 10**9))
        self._ledger = Ledger(unit_bytes=unit_bytes)
        self._feed = LedgerFeed(self._ledger, dialects)
        policy = values.one(list(Policy))
        self._checks = LedgerChecks(self._ledger, self._feed, dialects, unit_bytes)
        self._freed = FreedNodes(self._ledger)
        self._api = Store()
        readiness = Readiness(synced=lambda: True, silent_seconds=lambda: 0.0)
        foreign = make_foreign_inspects((dialect,), self._feed.created.get)
        self._inspects = [f"{path}/inspect" for path in foreign]
        verbs = Verbs(self._ledger, self._feed, policy)
        self._routes = Routes(
            self._ledger,
            verbs,
            Binder(self._api, self._ledger, self._feed, policy, readiness=readiness),
            ExtenderMetrics(self._ledger, lambda: 0.0, lambda: True),
            simulator=Simulator(self._ledger, self._feed, verbs),
            preemption=PreemptVerb(self._ledger, self._feed, policy),
            readiness=readiness,
            foreign=foreign,
        )
        self._pods: dict[str, dict[str, Any]] = {}
        self._late: set[str] = set()
        self._uids: set[str] = set()
        self._nodes: dict[str, dict[str, Any]] = {}
        self._node_names: set[str] = set()
        self._maps: set[str] = set()
        self._most_nodes = len(NODES)

    async def run(self, objects: int) -> None:
        """Let so many objects come and go, then all of them go.

        Raises:
            FindingError: a property does not hold.
        """
        for name in NODES:
            self._put_node(name)
        steps = (
            *((self._create_pod,) * 30, (self._change_pod,) * 25, (self._delete_pod,) * 12, (self._change_node,) * 10),
            *((self._drop_node,) * 2, (self._list_pods,), (self._list_nodes,), (self._put_config_map,) * 3),
            (self._show_late,) * 3,
        )
        chosen = [step for group in steps for step in group]
        while self.tally.objects < objects:
            if self._values.chance(0.15):
                await self._values.one((*(self._decide,) * 7, *(self._bind,) * 7, self._look))()
            else:
                self._values.one(chosen)()
            self._most_nodes = max(self._most_nodes, len(self._nodes.keys() | self._bound().keys()))
        self._checks.check_sums()
        self._end()

    def _create_pod(self) -> None:
        pod = self._objects.pod(self._pick_node() if self._values.hostile(0.5) else "")
        self._pods[pod["metadata"]["uid"]] = pod
        self._uids.add(pod["metadata"]["uid"])
        self._api.keep(pod)
        self._show_pod("ADDED", pod)

    def _change_pod(self) -> None:
        if (pod := self._pick_pod()) is None:
            return
        ended = pod["status"].get("phase") in ("Succeeded", "Failed")
        if not ended:
            # A pod that has ended stays so; the API server sees to that.
            self._objects.change_pod(pod)
        if not pod["spec"].get("nodeName") and self._values.hostile(0.3):
            pod["spec"]["nodeName"] = self._pick_node()
        self._show_pod("MODIFIED", pod)

    def _delete_pod(self) -> None:
        if (pod := self._pick_pod()) is None:
            return
        uid = pod["metadata"]["uid"]
        del self._pods[uid]
        self._late.discard(uid)
        self._api.forget(pod)
        self._show_pod("DELETED", pod)
        if self._ledger.find_holding(uid) is not None:
            raise FindingError("a pod that was deleted still holds cards", pod)

    def _show_late(self) -> None:
        for uid in list(self._late):
            self._show_pod("MODIFIED", self._pods[uid])

    def _show_pod(self, kind: str, pod: dict[str, Any]) -> None:
        self._late.discard(pod["metadata"]["uid"])
        self.tally.objects += 1
        honest = json.dumps(pod).encode()
        decoded = self._decode(_pod, honest, pod)
        if decoded is None:
            return
        if self._values.chance(0.02):
            self._damage(_pod, honest, pod)
        with self.tally.measure("pod", pod):
            self._feed.take_pod_event(kind, decoded)
        if kind != "DELETED":
            self._checks.check_charged(pod)

    def _list_pods(self) -> None:
        decoded = [found for pod in self._pods.values() if (found := self._decode(_pod, json.dumps(pod), pod))]
        self._late.clear()
        self.tally.objects += len(decoded)
        with self.tally.measure("list of pods", {"pods": len(decoded)}):
            young = self._feed.replace_pods(decoded)
        if any(held.stage is ShareStage.CONFIRMED for held in young):
            raise FindingError("a confirmed pod that a list does not show is kept", [held.pod.uid for held in young])
        for pod in self._pods.values():
            self._checks.check_charged(pod)

    def _change_node(self) -> None:
        # Names that never come again show what is kept of them.
        fresh = f"n{self._values.rng.getrandbits(40)}"
        self._put_node(fresh if self._values.chance(0.05) else self._values.one(NODES))

    def _put_node(self, name: str) -> None:
        node = self._objects.node(name)
        self.tally.objects += 1
        decoded = self._decode(_node, json.dumps(node), node)
        if decoded is None:
            return
        self._nodes[name] = node
        self._node_names.add(name)
        if self._values.chance(0.02):
            self._damage(_node, json.dumps(node).encode(), node)
        with self.tally.measure("node", node):
            self._feed.take_node_event(self._values.one(("ADDED", "MODIFIED")), decoded)
        self._checks.note_unit(name)
        self._checks.check_sums()

    def _drop_node(self) -> None:
        if self._nodes:
            name = self._values.one(list(self._nodes))
            node = self._nodes.pop(name)
            with self.tally.measure("node", node):
                self._feed.take_node_event("DELETED", _node.decode(json.dumps(node)))

    def _list_nodes(self) -> None:
        for name in [name for name in self._nodes if self._values.chance(0.2)]:
            del self._nodes[name]
        self.tally.objects += len(self._nodes)
        with self.tally.measure("list of nodes", list(self._nodes)):
            self._feed.replace_nodes([_node.decode(json.dumps(node)) for node in self._nodes.values()])

    def _put_config_map(self) -> None:
        found = self._objects.config_map(self._values.one(NODES))
        self.tally.objects += 1
        self._maps.add(found["metadata"]["name"])
        decoded = self._decode(_config_map, json.dumps(found), found)
        if decoded is not None:
            with self.tally.measure("ConfigMap", found):
                self._feed.take_config_map_event(self._values.one(("ADDED", "MODIFIED", "DELETED")), decoded)

    async def _decide(self) -> None:
        pod = self._pick_pod() if self._values.chance(0.5) else self._objects.pod("")
        if pod is None:
            return
        names = [*NODES, "nobody"]
        body = json.dumps({"Pod": pod, "NodeNames": names}).encode()
        result: FilterResult = msgspec.json.decode(await self._ask("POST", "/filter", body, pod), type=FilterResult)
        if result.Error:
            self.tally.counts["filter refused"] += 1
            check_sentence("an error of filter", result.Error, pod)
            return
        check_filter(names, result, pod)
        if result.NodeNames and self._checks.requests_several_systems(pod):
            raise FindingError("a container that asks several systems is placed", pod)
        if self._values.chance(0.2) and (question := request_simulation(pod, names)):
            check_simulation(await self._ask("POST", "/simulate", question, pod), result, pod)
        scores = msgspec.json.decode(await self._ask("POST", "/prioritize", body, pod), type=list[HostPriority])
        if [each.Host for each in scores] != names or any(not 0 <= each.Score <= MAX_SCORE for each in scores):
            raise FindingError("the nodes' scores are not 0 to 10 for each", pod)

    async def _bind(self) -> None:
        waiting = [uid for uid, pod in self._pods.items() if not pod["spec"].get("nodeName")]
        if not waiting:
            return
        uid = self._values.one(waiting)
        pod = self._pods[uid]
        self._api.fails = self._values.chance(0.1)
        asked = json.dumps({"Pod": pod, "NodeNames": list(NODES)}).encode()
        fitting = msgspec.json.decode(await self._ask("POST", "/filter", asked, pod), type=FilterResult).NodeNames
        node = self._values.one(fitting) if fitting and self._values.chance(0.9) else self._pick_node()
        metadata = pod["metadata"]
        names = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": uid, "Node": node}
        answer = await self._ask("POST", "/bind", json.dumps(names).encode(), pod)
        if error := msgspec.json.decode(answer, type=BindingResult).Error:
            self.tally.counts["bind refused"] += 1
            check_sentence("a refusal to bind", error, pod)
        else:
            self._late.add(uid)

    async def _look(self) -> None:
        for path in ("/inspect", f"/inspect/{NODES[0]}", *self._inspects, "/metrics"):
            await self._ask("GET", path, b"", path)
        with self.tally.measure("freed nodes", {}):
            self._freed.find()
        self._checks.check_sums()

    async def _ask(self, method: str, path: str, body: bytes, subject: object) -> bytes:
        """Ask the extender, as kube-scheduler and people do."""
        with self.tally.measure(path.rpartition("/")[2] if method == "POST" else "inspect", subject):
            reply = await self._routes.handle(method, path, body)
        if reply.status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
            raise FindingError(f"{path} is answered by {reply.status}", subject)
        return reply.body

    def _end(self) -> None:
        """Let everything go, and see that nothing is left."""
        self._end_pods()
        self._checks.check_pods_left(self._uids, self._most_nodes)
        self._feed.replace_nodes([])
        self._feed.replace_config_maps([])
        self._checks.check_nodes_left(self._node_names)

    def _end_pods(self) -> None:
        gone = list(self._pods.values())
        if self._values.chance(0.5):
            # The list may be older than the youngest Bindings, which are then asked for one by one.
            gone = [self._pods[held.pod.uid] for held in self._feed.replace_pods([])]
        for pod in gone:
            if (decoded := self._decode(_pod, json.dumps(pod), pod)) is not None:
                self._feed.take_pod_event("DELETED", decoded)

    def _decode(self, decoder: msgspec.json.Decoder[Any], text: bytes | str, subject: object) -> Any:
        with self.tally.measure("decode", subject):
            try:
                return decoder.decode(text)
            except UNREADABLE:
                self.tally.counts["unreadable"] += 1
                return None

    def _damage(self, decoder: msgspec.json.Decoder[Any], honest: bytes, subject: object) -> None:
        """See that a text that is damaged, or has parts of wrong types, is read or refused."""
        self.tally.objects += 2
        self._decode(decoder, self._values.damage(honest), subject)
        spoiled = self._values.spoil(subject)
        self._decode(decoder, json.dumps(spoiled), spoiled)

    def _pick_pod(self) -> dict[str, Any] | None:
        return self._pods[self._values.one(list(self._pods))] if self._pods else None

    def _pick_node(self) -> str:
        return self._values.one(NODES) if self._values.chance(0.95) else f"g{self._values.rng.getrandbits(40)}"

    def _bound(self) -> Mapping[str, int]:
        return Counter(name for pod in self._pods.values() if (name := pod["spec"].get("nodeName")))
