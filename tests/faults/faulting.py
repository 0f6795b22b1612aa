"""Breaks processes and connections of the laboratory for a while, and mends them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable

from faults.false_clock import LIBRARIES
from faults.gate import Gate
from faults.laboratory import LEASE, OURS, REPLICAS, Laboratory
from faults.link import Link
from faults.members import Member
from faults.schedule import FAULTS, Step

from accelkit.errors import ApiError

NAMED_UNITS = ("1GiB", "512MiB", "256MiB")
POLICIES = ("binpack", "spread", "fragmentation", "topology")


class Faulting:
    """Performs the faults of a schedule.

    Args:
        laboratory: what is broken.
        note: takes a line for the history.
        on_change: called with whether something is broken now.
        on_removal: called with the name of a node that is about to be deleted.

    Attributes:
        counts: how often each fault was done, by its name and that of its target.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        note: Callable[[str], None],
        *,
        on_change: Callable[[bool], None],
        on_removal: Callable[[str], Awaitable[None]],
    ) -> None:
        self.laboratory = laboratory
        self._note = note
        self._on_change = on_change
        self._on_removal = on_removal
        self._leader = REPLICAS[0]
        # Members under a fault: another one would end with it.
        self._broken: set[str] = set()
        self.counts: dict[str, int] = {}

    def handles(self, step: Step) -> bool:
        return step.action in FAULTS

    async def perform(self, step: Step) -> None:
        """Break what the step names, wait for its seconds, and repair it."""
        if step.action.startswith("change_"):
            await self._change_options(step)
            return
        name = await self._find(step)
        if not self._can(step):
            self._note(f"left out: {step.action} cannot be done here")
            return
        if name in self._broken:
            self._note(f"left out: {name} is under another fault")
            return
        self._count(step)
        async with self._broken_for(step, name):
            await asyncio.sleep(step.arguments["seconds"])

    def _can(self, step: Step) -> bool:
        """Return whether this machine has what a fault needs: libfaketime, or the right to mount."""
        if step.action == "jump_clock":
            return bool(LIBRARIES)
        return step.action != "fill_disk" or self.laboratory.disk.mounted

    async def wait_until_repaired(self) -> None:
        """Wait until every process serves again."""
        for member in self.laboratory.members.values():
            await member.ready()

    @contextlib.asynccontextmanager
    async def _broken_for(self, step: Step, name: str) -> AsyncIterator[None]:
        self._broken.add(name)
        self._on_change(True)
        self._note(f"fault {step.action} {name} for {step.arguments['seconds']} s")
        try:
            await self._break(step, name)
            yield
        finally:
            await self._repair(step, name)
            self._note(f"repaired {step.action} {name}")
            self._broken.discard(name)
            if not self._broken:
                self._on_change(False)

    async def _break(self, step: Step, name: str) -> None:
        delay = step.arguments.get("delay", 0.0)
        if step.action in LINK_FAULTS:
            LINK_FAULTS[step.action](self._find_link(name), delay)
        elif step.action in GATE_FAULTS:
            GATE_FAULTS[step.action](self.laboratory.gates[name], delay)
        elif step.action in MEMBER_FAULTS:
            MEMBER_FAULTS[step.action](self.laboratory.members[name])
        elif step.action == "jump_clock":
            self.laboratory.clocks[name].jump(delay)
        elif step.action == "fill_disk":
            self.laboratory.disk.fill()
        elif step.action == "remove_node":
            self.laboratory.members[name].kill()
            await self._remove_node(name, step)
        else:
            await asyncio.to_thread(self._compact)

    async def _repair(self, step: Step, name: str) -> None:
        if step.action in LINK_FAULTS or step.action in GATE_FAULTS:
            link = self._find_link(name)
            if step.arguments.get("reset"):
                link.cut()
            link.repair()
            return
        if step.action == "jump_clock":
            self.laboratory.clocks[name].jump(0)
            return
        if step.action == "fill_disk":
            self.laboratory.disk.free()
            return
        self.laboratory.members[name].allow()
        if step.action == "remove_node":
            # What was bound there meanwhile.
            await self._on_removal(self._choose_node(name, step))
        await self.laboratory.members[name].ready()

    def _find_link(self, name: str) -> Link:
        return self.laboratory.service if name == "service" else self.laboratory.gates[name]

    async def _find(self, step: Step) -> str:
        """Return the member that a step means: which extender leads, only the cluster knows."""
        target = str(step.arguments["target"])
        if target not in ("leader", "follower"):
            return target
        with contextlib.suppress(ApiError, LookupError):
            self._leader = (await self.laboratory.read(LEASE))["spec"]["holderIdentity"] or self._leader
        (other,) = (name for name in REPLICAS if name != self._leader)
        return self._leader if target == "leader" else other

    def _count(self, step: Step) -> None:
        what = f"{step.action} {step.arguments['target']}"
        self.counts[what] = self.counts.get(what, 0) + 1

    async def _remove_node(self, host: str, step: Step) -> None:
        """Delete a node whose kubelet has just ended; it registers anew when it starts."""
        chosen = self._choose_node(host, step)
        self._note(f"removing {chosen}")
        await self._on_removal(chosen)
        with contextlib.suppress(ApiError):
            await self.laboratory.api.delete(f"/api/v1/nodes/{chosen}")

    def _choose_node(self, host: str, step: Step) -> str:
        specs = self.laboratory.specs
        nodes = [spec.name for spec in specs if self.laboratory.name_host("kubelets", spec.name) == host]
        return nodes[int(step.chance * len(nodes))]

    async def _change_options(self, step: Step) -> None:
        """Start our services again with another unit, policy or dialect, one after the other."""
        shape = self.laboratory.shape
        names = [name for name in self.laboratory.members if name.startswith(OURS)]
        if step.action == "change_unit":
            shape.unit = [each for each in NAMED_UNITS if each != shape.unit][int(step.chance * 2)]
        elif step.action == "change_dialect":
            shape.dialect = next(each for each in shape.dialects if each != shape.dialect)
            names = [name for name in names if name not in REPLICAS]
        else:
            shape.policy = [each for each in POLICIES if each != shape.policy][int(step.chance * 3)]
            names = list(REPLICAS)
        self._count(step)
        self._note(f"fault {step.action}: unit {shape.unit}, policy {shape.policy}, dialect {shape.dialect}")
        for name in names:
            while name in self._broken:
                await asyncio.sleep(0.1)
            self._broken.add(name)
            self._on_change(True)
            member = self.laboratory.members[name]
            await member.restart()
            self._broken.discard(name)
        if not self._broken:
            self._on_change(False)

    def _compact(self) -> None:
        """Have etcd forget all former revisions, so that nothing can be read from an older one."""
        etcd = f"http://127.0.0.1:{self.laboratory.ports.etcd}/v3/kv"
        key = base64.b64encode(b"/").decode()
        with contextlib.suppress(OSError):
            answer = _ask(f"{etcd}/range", {"key": key})
            revision = answer["header"]["revision"]
            _ask(f"{etcd}/compaction", {"revision": revision})
            self._note(f"etcd forgot what was before revision {revision}")


def _ask(url: str, body: dict[str, str]) -> dict[str, dict[str, str]]:
    request = urllib.request.Request(url, json.dumps(body).encode())  # noqa: S310 - etcd of our own
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - the same
        found: dict[str, dict[str, str]] = json.load(answer)
        return found


def _slow(link: Link, delay: float) -> None:
    link.delay_seconds = delay


def _delay_watches(gate: Gate, delay: float) -> None:
    gate.watch_delay_seconds = delay


def _lose_requests(gate: Gate, _delay: float) -> None:
    gate.loses_requests = True


def _lose_answers(gate: Gate, _delay: float) -> None:
    gate.loses_answers = True


LINK_FAULTS: dict[str, Callable[[Link, float], None]] = {
    "cut": lambda link, _: link.shut(),
    "stall": lambda link, _: link.stall(),
    "slow": _slow,
}
GATE_FAULTS: dict[str, Callable[[Gate, float], None]] = {
    "late_watches": _delay_watches,
    "drop_watches": lambda gate, _: gate.drop_watches(),
    "expire_watches": lambda gate, _: gate.expire_watches(),
    "rewind_watches": lambda gate, _: gate.rewind_watches(),
    "repeat_events": lambda gate, _: gate.repeat_events(),
    "swap_events": lambda gate, _: gate.swap_events(),
    "lose_requests": _lose_requests,
    "lose_answers": _lose_answers,
}
MEMBER_FAULTS: dict[str, Callable[[Member], None]] = {
    "kill": lambda member: member.kill(),
    "terminate": lambda member: member.kill(signal.SIGTERM),
    "stop": lambda member: member.send(signal.SIGSTOP),
    "freeze": lambda member: member.send(signal.SIGSTOP),
}
