"""What users and administrators do to the cluster during a storm."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from faults.laboratory import Laboratory
from faults.schedule import Step

from accelkit.errors import ApiError

PODS = "/api/v1/namespaces/default/pods"
EXIT = "sandbox.accelkit.io/exit"
MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"


class Operations:
    """Performs steps, and keeps a list of the pods that nobody has ended.

    Attributes:
        expected: name by UID of the pods that must exist.
    """

    def __init__(self, laboratory: Laboratory, most_pods: int, note: Callable[[str], None]) -> None:
        self._laboratory = laboratory
        self._most = most_pods
        self._note = note
        self._numbers = itertools.count()
        self.expected: dict[str, str] = {}
        self._actions: dict[str, Callable[[Step], Coroutine[Any, Any, None]]] = {
            "create_burst": self._create_burst,
            "delete": self._delete,
            "delete_by_force": self._delete_by_force,
            "complete": self._complete,
        }

    def knows(self, step: Step) -> bool:
        return step.action in self._actions

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

    async def _create_burst(self, step: Step) -> None:
        room = self._most - len(self.expected)
        await asyncio.gather(*(self._create(kind, size) for kind, size in step.arguments["pods"][: max(0, room)]))

    async def _create(self, kind: str, size: int) -> None:
        name = f"pod-{next(self._numbers)}"
        body = {"metadata": {"name": name}, "spec": build_spec(kind, size)}
        made = await self._try("POST", PODS, body)
        if made is not None:
            self.expected[made["metadata"]["uid"]] = f"default/{name}"

    async def _delete(self, step: Step) -> None:
        await self._remove(step, None)

    async def _delete_by_force(self, step: Step) -> None:
        await self._remove(step, 0)

    async def _remove(self, step: Step, grace: int | None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        for uid, path in self._choose(step):
            # Before it is asked for: where the answer is lost, it may have been done.
            self.expected.pop(uid, None)
            await self._try("DELETE", _path(path), {**options, "preconditions": {"uid": uid}})

    async def _complete(self, step: Step) -> None:
        for uid, path in self._choose(step):
            code = str(int(step.chance * 100) % 2)
            await self._try("PATCH", _path(path), {"metadata": {"uid": uid, "annotations": {EXIT: code}}})

    def _choose(self, step: Step) -> list[tuple[str, str]]:
        """Return the pods of a step, by the chance that the schedule drew."""
        known = sorted(self.expected.items(), key=lambda each: each[1])
        count = min(len(known), step.arguments["count"])
        return random.Random(step.chance).sample(known, count)

    async def _try(self, method: str, path: str, body: object) -> Any:
        api = self._laboratory.api
        request = {"POST": api.post, "PATCH": api.patch, "DELETE": api.delete}[method]
        try:
            answer = await request(path, body)  # type: ignore[operator]
        except ApiError as exc:
            self._note(f"not done: {method} {path}: {exc}")
            return None
        return msgspec.json.decode(answer) if answer else {}


def _path(pod: str) -> str:
    namespace, _, name = pod.partition("/")
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def build_spec(kind: str, size: int) -> dict[str, Any]:
    """Return the spec of a pod that asks for so many units, or for whole cards, in one way or another."""
    containers = {"main": {CARDS: 1 + size % 2}} if kind == "cards" else {"main": {MEMORY: size}}
    if kind == "two":
        containers["beside"] = {MEMORY: 1}
    inits = {"first": {MEMORY: max(1, size // 2)}} if kind == "init" else {}
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [_container(name, limits) for name, limits in containers.items()],
        "initContainers": [_container(name, limits) for name, limits in inits.items()],
    }


def _container(name: str, limits: dict[str, int]) -> dict[str, Any]:
    amounts = {resource: str(amount) for resource, amount in limits.items()}
    return {"name": name, "image": "busybox", "resources": {"limits": amounts}}
