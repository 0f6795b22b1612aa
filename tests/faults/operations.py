"""What users and administrators do to the cluster during a storm."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec
from faults.laboratory import Laboratory
from faults.schedule import Step

from accelkit.errors import ApiError
from accelkit.kube.client import PatchKind
from accelkit.sandbox.layout import write_atomically
from accelkit.sandbox.nodes import encode_cards

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
GROUP = "pod-group.scheduling.sigs.k8s.io/name"
GROUP_SIZE = "pod-group.scheduling.sigs.k8s.io/min-available"
EXIT = "sandbox.accelkit.io/exit"


class Operations:
    """Performs steps, and keeps a list of the pods that nobody has ended.

    Attributes:
        expected: name by UID of the pods that must exist.
        lost_cards: the nodes from which cards were taken out in this storm.
    """

    def __init__(self, laboratory: Laboratory, most_pods: int, note: Callable[[str], None]) -> None:
        self._laboratory = laboratory
        self._most = most_pods
        self._note = note
        self._numbers = itertools.count()
        self.expected: dict[str, str] = {}
        self._deployments: list[str] = []
        self._cordoned: set[str] = set()
        self._failed = ""
        self.lost_cards: set[str] = set()
        self._actions: dict[str, Callable[[Step], Coroutine[Any, Any, None]]] = {
            "create_burst": self._create_burst,
            "create_flood": self._create_burst,
            "delete_all": self._delete_all,
            "create_group": self._create_group,
            "create_deployment": self._create_deployment,
            "scale_deployment": self._scale_deployment,
            "delete_deployment": self._delete_deployment,
            "delete": self._delete,
            "delete_by_force": self._delete_by_force,
            "complete": self._complete,
            "evict": self._evict,
            "resize": self._resize,
            "cordon": self._cordon,
            "fail_card": self._fail_card,
        }

    async def perform(self, step: Step) -> None:
        """Perform a step; what the API server does not take during a fault is left out."""
        await self._actions[step.action](step)

    async def clean_up(self) -> None:
        """Delete the pods that have ended, and take over those whose creation was not answered."""
        for item in (await self._laboratory.read(PODS))["items"]:
            meta = item["metadata"]
            if item["status"].get("phase") in ("Succeeded", "Failed"):
                self.expected.pop(meta["uid"], None)
                await self._try("DELETE", f"{PODS}/{meta['name']}", {"gracePeriodSeconds": 0})
            elif "deletionTimestamp" not in meta and not meta.get("ownerReferences"):
                self.expected.setdefault(meta["uid"], f"default/{meta['name']}")

    async def remove_node(self, node: str) -> None:
        """Expect the pods of a node no more: it is removed, and what ran there may be deleted."""
        with contextlib.suppress(ApiError):
            for item in (await self._laboratory.read(f"{PODS}?fieldSelector=spec.nodeName%3D{node}"))["items"]:
                self.expected.pop(item["metadata"]["uid"], None)

    def _build(self, kind: str, size: int) -> dict[str, Any]:
        return build_spec(kind, size, *self._laboratory.shape.resources)

    async def _create_burst(self, step: Step) -> None:
        room = self._most - len(self.expected)
        await asyncio.gather(
            *(self._create(self._build(kind, size)) for kind, size in step.arguments["pods"][: max(0, room)])
        )

    async def _create_group(self, step: Step) -> None:
        size = step.arguments["size"]
        if len(self.expected) + size > self._most:
            return
        labels = {GROUP: f"group-{next(self._numbers)}", GROUP_SIZE: str(size)}
        spec = self._build("memory", step.arguments["units"])
        if step.arguments["gated"]:
            spec["schedulingGates"] = [{"name": "accelkit.io/pod-group"}]
        await asyncio.gather(*(self._create(spec, labels) for _ in range(size)))

    async def _create(self, spec: Mapping[str, Any], labels: Mapping[str, str] = MappingProxyType({})) -> None:
        name = f"pod-{next(self._numbers)}"
        made = await self._try("POST", PODS, {"metadata": {"name": name, "labels": dict(labels)}, "spec": spec})
        if made is not None:
            self.expected[made["metadata"]["uid"]] = f"default/{name}"

    async def _create_deployment(self, step: Step) -> None:
        name = f"deployment-{next(self._numbers)}"
        labels = {"app": name}
        # Of these pods other controllers decide when they end, so none is expected.
        pod = {**self._build("memory", step.arguments["units"]), "restartPolicy": "Always"}
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec = {"replicas": step.arguments["replicas"], "selector": {"matchLabels": labels}, "template": template}
        if await self._try("POST", DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec}) is not None:
            self._deployments.append(name)

    async def _scale_deployment(self, step: Step) -> None:
        for name in random.Random(step.chance).sample(self._deployments, min(1, len(self._deployments))):
            await self._try("PATCH", f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": step.arguments["replicas"]}})

    async def _delete_deployment(self, step: Step) -> None:
        for name in random.Random(step.chance).sample(self._deployments, min(1, len(self._deployments))):
            self._deployments.remove(name)
            await self._try("DELETE", f"{DEPLOYMENTS}/{name}", {"propagationPolicy": "Background"})

    async def _delete(self, step: Step) -> None:
        await self._remove(step, None)

    async def _delete_all(self, step: Step) -> None:
        count = len(self.expected)
        await self._remove(replace(step, arguments={"count": count}), None)

    async def _delete_by_force(self, step: Step) -> None:
        await self._remove(step, 0)

    async def _remove(self, step: Step, grace: int | None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        chosen = self._choose(step)
        # Before it is asked for: where the answer is lost, it may have been done.
        for uid, _ in chosen:
            self.expected.pop(uid, None)
        await asyncio.gather(
            *(self._try("DELETE", _path(path), {**options, "preconditions": {"uid": uid}}) for uid, path in chosen)
        )

    async def _complete(self, step: Step) -> None:
        for uid, path in self._choose(step):
            code = str(int(step.chance * 100) % 2)
            await self._try("PATCH", _path(path), {"metadata": {"uid": uid, "annotations": {EXIT: code}}})

    async def _evict(self, step: Step) -> None:
        for uid, path in self._choose(step):
            self.expected.pop(uid, None)
            namespace, _, name = path.partition("/")
            metadata = {"name": name, "namespace": namespace}
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            await self._try("POST", f"{_path(path)}/eviction", eviction)

    async def _resize(self, step: Step) -> None:
        """Change the CPU of running pods in place; cards cannot be changed so."""
        amount = f"{10 + int(step.chance * 50)}m"
        for _, path in self._choose(step):
            containers = [{"name": "main", "resources": {"requests": {"cpu": amount}}}]
            await self._try("PATCH", f"{_path(path)}/resize", {"spec": {"containers": containers}}, kind="strategic")

    async def _cordon(self, step: Step) -> None:
        """Cordon a node, and allow new pods on those that were cordoned before."""
        chosen = random.Random(step.chance).choice(self._laboratory.specs).name
        for name in {*self._cordoned, chosen}:
            await self._try("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": name == chosen or None}})
        self._cordoned = {chosen}

    async def _fail_card(self, step: Step) -> None:
        """Take a card out of a node, and put back those that were taken before."""
        chosen = random.Random(step.chance).choice(self._laboratory.specs)
        for spec in self._laboratory.specs:
            if spec.name in (self._failed, chosen.name):
                cards = spec.cards[:-1] if spec is chosen else spec.cards
                file = self._laboratory.roots[spec.name] / "etc/accelkit/simulated-cards.json"
                with contextlib.suppress(FileNotFoundError):
                    write_atomically(file, encode_cards(msgspec.structs.replace(spec, cards=cards)))
        self._failed = chosen.name
        self.lost_cards.add(chosen.name)

    def _choose(self, step: Step) -> list[tuple[str, str]]:
        """Return the pods of a step, by the chance that the schedule drew."""
        known = sorted(self.expected.items(), key=lambda each: each[1])
        count = min(len(known), step.arguments["count"])
        return random.Random(step.chance).sample(known, count)

    async def _try(self, method: str, path: str, body: object, *, kind: PatchKind = "merge") -> Any:
        api = self._laboratory.api
        requests: dict[str, Callable[[], Awaitable[bytes]]] = {
            "POST": lambda: api.post(path, body),
            "PATCH": lambda: api.patch(path, body, kind=kind),
            "DELETE": lambda: api.delete(path, body),
        }
        try:
            answer = await requests[method]()
        except ApiError as exc:
            self._note(f"not done: {method} {path}: {exc}")
            return None
        return msgspec.json.decode(answer) if answer else {}


def _path(pod: str) -> str:
    namespace, _, name = pod.partition("/")
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def build_spec(kind: str, size: int, memory: str, cards: str) -> dict[str, Any]:
    """Return the spec of a pod that asks for so many units of memory, or for whole cards, in one way or another."""
    containers = {"main": {cards: 1 + size % 2}} if kind == "cards" else {"main": {memory: size}}
    if kind == "two":
        containers["beside"] = {memory: 1}
    inits = {"first": {memory: max(1, size // 2)}} if kind == "init" else {}
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [_container(name, limits) for name, limits in containers.items()],
        "initContainers": [_container(name, limits) for name, limits in inits.items()],
    }


def _container(name: str, limits: dict[str, int]) -> dict[str, Any]:
    amounts = {resource: str(amount) for resource, amount in limits.items()}
    return {"name": name, "image": "busybox", "resources": {"limits": amounts, "requests": {"cpu": "10m"}}}
