"""The node agent under pods of any kind and a kubelet that sends anything, beside one that does its work."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec
from fuzzing.devices import Devices
from fuzzing.leftovers import find_leftovers
from fuzzing.objects import CARDS, TIMES, Objects
from fuzzing.rounds import FindingError, Tally
from fuzzing.store import Store
from fuzzing.values import GIB, draw_values
from support.grpc_calls import Context, RefusedError

from accelkit.kube.events import Events
from accelkit.kube.listing import UNREADABLE
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import MOVING
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import Node, Pod
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node._proto import podresources_pb2 as resources_api
from accelkit.node.device_plugin import plugin as plugin_module
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.discovery import FoundCard
from accelkit.node.metrics import Metrics
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePods
from accelkit.node.reconciliation.reconciler import Reconciler
from accelkit.node.reconciliation.snapshot import group_devices_by_pod
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.profiles import load_profiles

_NODE: Final = "n0"
_UNITS: Final = 16
_CARDS: Final = tuple(Card(card, "v", "m", _UNITS * GIB, index=place) for place, card in enumerate(CARDS[:4]))
_NOWHERE: Final = Path("/nonexistent")
# For how long an allocation that the kubelet never shows is remembered, and more.
_FORGOTTEN_SECONDS: Final = 100.0
_LOOKS: Final = 3
_pod = msgspec.json.Decoder(Pod)


class KubeletRound:
    """One node from its first pod to its last.

    Args:
        rng: all that happens follows from its seed.
        dialect: what the node advertises.
    """

    def __init__(self, rng: random.Random, dialect: str) -> None:
        self.tally = Tally()
        self._values = draw_values(rng)
        self._dialect = load_dialect(dialect)
        self._objects = Objects(self._values, self._dialect)
        self._api, self._now = Store(), 0.0
        self._pods = NodePods(self._api, _NODE, self._dialect)
        self._allocations = {
            whole: PreferredAllocation(whole=whole, clock=lambda: self._now) for whole in (True, False)
        }
        names = {True: self._dialect.resources.cards, False: self._dialect.resources.memory}
        self._names = names
        self._plugins = {
            whole: DevicePlugin(
                _NOWHERE,
                resource=names[whole],
                whole=whole,
                pods=self._pods,
                allocations=self._allocations[whole],
                other=(names[not whole], self._allocations[not whole]),
                environment=self._dialect.environment,
            )
            for whole in (True, False)
        }
        node = NodeCards({card.id: card for card in _CARDS}, GIB)
        self._reconciler = Reconciler(
            self._api,
            pods=self._pods,
            cards=lambda: node,
            events=Events(self._api, "agent", _NODE),
            metrics=Metrics(),
        )
        self._ledger = Ledger(unit_bytes=GIB)
        self._feed = LedgerFeed(self._ledger, (self._dialect,))
        annotations = {INVENTORY_ANNOTATION: encode_inventory(Inventory(GIB, _CARDS))}
        self._feed.take_node_event("ADDED", Node(ObjectMeta(name=_NODE, annotations=annotations)))
        self._bound: dict[str, dict[str, Any]] = {}
        # What the kubelet gave: by pod, container and kind of resource.
        self._given: dict[str, dict[tuple[str, bool], list[str]]] = {}
        self._uids: set[str] = set()
        self._lies = False
        self._devices = Devices(self._values, _CARDS, names)

    async def run(self, objects: int) -> None:
        """Let so many pods and messages come, then let all pods go.

        Raises:
            FindingError: a property does not hold.
        """
        profile = load_profiles()["simulated"]
        cards = [FoundCard(card, card.index or 0, card.index, profile) for card in _CARDS]
        with mock.patch.object(plugin_module, "list_pod_resources", self._answer):
            for whole, plugin in self._plugins.items():
                await plugin.advertise(cards, GIB)
                self._devices.note(plugin, whole=whole)
            while self.tally.objects < objects:
                step = self._values.one((self._admit, self._admit, self._forge, self._end, self._send, self._look))
                await step()
            await self._look()
            await self._end_all()

    async def _admit(self) -> None:
        """Bind a pod with any annotations, and let the kubelet take it as kubelets do."""
        pod = self._objects.pod(_NODE)
        pod["spec"]["initContainers"] = []
        pod["status"] = {"phase": "Pending"}
        wanted = list(self._devices.list_amounts(pod))
        if not wanted or any(amount is None for *_, amount in wanted):
            return
        uid = pod["metadata"]["uid"]
        self._uids.add(uid)
        self._api.keep(pod)
        if not self._show(pod):
            self._api.forget(pod)
            return
        self._bound[uid] = pod
        given: dict[tuple[str, bool], list[str]] = {}
        self._given[uid] = given
        for container, whole, amount in wanted:
            ids = await self._allocate(pod, whole=whole, amount=amount or 0)
            if ids is None:
                # The kubelet's word for it is UnexpectedAdmissionError.
                self._given[uid] = {}
                pod["status"]["phase"] = "Failed"
                self._show(pod)
                return
            given[container, whole] = ids
        pod["status"] = {"phase": "Running", "startTime": self._values.one(TIMES)}
        self._show(pod)

    async def _allocate(self, pod: dict[str, Any], *, whole: bool, amount: int) -> list[str] | None:
        taken = {i for held in self._given.values() for (_, each), ids in held.items() for i in ids if each is whole}
        free = [i for i in self._devices.ids[whole] if i not in taken]
        if amount > len(free):
            return None
        answer = await self._prefer(free, [], amount, pod, whole=whole)
        ids = list(answer) if len(answer) == amount else free[:amount]
        return ids if await self._grant(ids, pod, whole=whole) else None

    async def _prefer(
        self, available: Sequence[str], taken: Sequence[str], size: int, subject: object, *, whole: bool
    ) -> list[str]:
        wanted = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=taken, allocation_size=size
        )
        request = api.PreferredAllocationRequest(container_requests=[wanted])
        self.tally.objects += 1
        with self.tally.measure("GetPreferredAllocation", subject):
            answer = await self._plugins[whole].GetPreferredAllocation(request, Context())
        ids = list(answer.container_responses[0].deviceIDs)
        if ids and (len(ids) != size or not set(ids) <= {*available, *taken}):
            raise FindingError("devices are preferred that cannot be given", [ids[:20], size, subject])
        return ids

    async def _grant(self, ids: Sequence[str], subject: object, *, whole: bool) -> bool:
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)])
        self.tally.objects += 1
        with self.tally.measure("Allocate", subject):
            try:
                await self._plugins[whole].Allocate(request, Context())
            except RefusedError:
                # Its sentence is a line of the log too, where its length is looked at.
                self.tally.counts["Allocate refused"] += 1
                return False
        return True

    async def _forge(self) -> None:
        """Let a user write on a pod that runs."""
        if self._bound:
            pod = self._bound[self._values.one(list(self._bound))]
            status = pod["status"]
            self._objects.change_pod(pod)
            pod["status"] = status
            self._show(pod)

    async def _end(self) -> None:
        if self._bound:
            self._drop(self._values.one(list(self._bound)))

    async def _send(self) -> None:
        """Send what no kubelet sends, while it says of its pods what no kubelet says."""
        values = self._values
        self._lies = values.chance(0.7)
        whole = values.chance(0.4)
        # No longer than a kubelet takes them.
        ids = [self._devices.draw(whole=whole)[:63] for _ in range(int(values.rng.random() ** 3 * 40))]
        if values.chance(0.01):
            ids = ids * 500
        size = values.one((len(ids), 1, 0, -1, 2**31 - 1, int(values.rng.random() * 8)))
        now = self._now
        subject = {"ids": ids, "size": size, "whole": whole}
        await self._prefer(ids, values.some(ids or ["x"], 3), size, subject, whole=whole)
        await self._grant(ids, subject, whole=whole)
        with self.tally.measure("pod resources", {}):
            held = group_devices_by_pod(await self._answer(_NOWHERE), self._dialect)
        self._lies = False
        self.tally.objects += 1
        self.tally.counts["containers shown"] += sum(map(len, held.values()))
        # Nothing of it came to anything.
        self._now = now + _FORGOTTEN_SECONDS
        self._settle()

    async def _look(self) -> None:
        """Let the agent look, and see that the ledger then has what the kubelet gave."""
        for _ in range(_LOOKS):
            with self.tally.measure("look", {}):
                await self._reconciler.reconcile(group_devices_by_pod(await self._answer(_NOWHERE), self._dialect))
        for uid, pod in self._bound.items():
            given = self._given[uid]
            decoded = self._decode(pod)
            if not given or decoded is None or pod["status"]["phase"] != "Running":
                continue
            self._feed.take_pod_event("MODIFIED", decoded)
            if (held := self._ledger.find_holding(uid)) is None:
                raise FindingError("a pod whose kubelet shows its devices has no holding", pod)
            memory, whole = self._devices.count(given)
            shares = [share for name, each in held.assignment.containers.items() if name != MOVING for share in each]
            charged = Counter[str]()
            for share in shares:
                charged[share.card] += 0 if share.whole else share.memory_bytes
            if +charged != Counter({card: count * GIB for card, count in memory.items()}):
                raise FindingError("the ledger has other amounts than the kubelet gave", [charged, repr(given), pod])
            if sorted(share.card for share in shares if share.whole) != sorted(whole.elements()):
                raise FindingError("the ledger has other whole cards than the kubelet gave", [repr(given), pod])

    async def _end_all(self) -> None:
        for uid in list(self._bound):
            self._drop(uid)
        self._now += _FORGOTTEN_SECONDS
        self._settle()
        await asyncio.sleep(0)
        gone = self._uids.__contains__
        for part in (self._pods, *self._plugins.values(), self._reconciler, self._ledger, self._feed):
            if found := [path for path in find_leftovers(part, gone) if not path.startswith("._api")]:
                raise FindingError(f"{type(part).__name__} remembers pods that are gone", found[:10])

    def _settle(self) -> None:
        shown = {i for held in self._given.values() for ids in held.values() for i in ids}
        for each in self._allocations.values():
            each.settle(self._pods.list_assigned(), self._pods.list_unassigned(), shown)

    def _show(self, pod: dict[str, Any]) -> bool:
        self.tally.objects += 1
        if (decoded := self._decode(pod)) is None:
            return False
        with self.tally.measure("pod", pod):
            self._pods.take(decoded)
            self._feed.take_pod_event("MODIFIED", decoded)
        return True

    def _drop(self, uid: str) -> None:
        pod = self._bound.pop(uid)
        del self._given[uid]
        self._api.forget(pod)
        if (decoded := self._decode(pod)) is not None:
            self._pods._event("DELETED", decoded)
            self._feed.take_pod_event("DELETED", decoded)

    def _decode(self, pod: dict[str, Any]) -> Pod | None:
        try:
            return _pod.decode(json.dumps(pod))
        except UNREADABLE:
            self.tally.counts["unreadable"] += 1
            return None

    async def _answer(self, _root: Path) -> resources_api.ListPodResourcesResponse:
        """Say what containers hold: the truth, and lies beside it."""
        answer = resources_api.ListPodResourcesResponse()
        for uid, given in self._given.items():
            pod = answer.pod_resources.add(name=self._bound[uid]["metadata"]["name"], namespace="d")
            for (container, whole), ids in given.items():
                shown = pod.containers.add(name=container)
                shown.devices.add(resource_name=self._names[whole], device_ids=ids)
        for _ in range(int(self._values.rng.random() * 4) if self._lies else 0):
            self._devices.add_lie(answer, [pod["metadata"]["name"] for pod in self._bound.values()])
        return answer
