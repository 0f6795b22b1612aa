"""One storm: operations and faults on a cluster whose accounts are checked all the time.

A storm consists of rounds: it storms, all faults end, and then everything must hold. `storms.py` runs them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import itertools
import random
import time
from collections.abc import Sequence

from faults.checker import Violation
from faults.faulting import Faulting
from faults.footprint import SETTLE_SECONDS, Footprint, Footprints, read_footprint
from faults.history import History
from faults.injection import inject
from faults.laboratory import OURS, Laboratory
from faults.observer import Observer
from faults.operations import Operations
from faults.schedule import Step, plan_round
from faults.standstill import MachineClock

# Of a round; a shorter storm has one shorter round.
STORM_SECONDS = 20.0
CALM_SECONDS = 150.0
# What a round may take without a violation, for the decision whether another one begins.
ROUND_SECONDS = 30.0
# After one of so many rounds a wrong assignment is injected; which of them, the seed says.
INJECT_EVERY = 3
# The machine stands still for less than this now and then.
WORTH_SAYING_SECONDS = 1.0


class Storm:
    """One storm on a laboratory.

    Args:
        seed: from which operations and faults follow.
        laboratory: on which nothing else happens, and which is as it was when it started.
        history: takes what happens.
        options: those of storms.py.
        footprints: of the laboratory's processes, over all its storms.
        clock: by which deadlines are measured.

    Attributes:
        violations: what was violated, filled by `run`.
    """

    def __init__(
        self,
        seed: int,
        laboratory: Laboratory,
        history: History,
        options: argparse.Namespace,
        *,
        footprints: Footprints,
        clock: MachineClock,
    ) -> None:
        self._seed = seed
        self._laboratory = laboratory
        self._history = history
        self._options = options
        self._clock = clock
        self._operations = Operations(laboratory, options.pods, history.note)
        self._observer = Observer(laboratory, history, lambda: self._operations.expected, clock)
        self._footprints = footprints
        self._stood_still = clock.stood_still
        self._rounds = self._count = 0
        self._longest = 0.0
        self._faulting = Faulting(
            laboratory,
            history.note,
            on_change=self._observer.follow_faults,
            on_removal=self._operations.remove_node,
        )

    @property
    def violations(self) -> list[Violation]:
        return self._observer.overdue

    async def run(self) -> None:
        """Run rounds until the time is over or an invariant is violated."""
        looking = asyncio.create_task(self._observer.run())
        deadline = time.monotonic() + self._options.seconds
        try:
            for number in itertools.count():
                if number and time.monotonic() + ROUND_SECONDS > deadline:
                    break
                await self._run_round(number)
                if self.violations:
                    break
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
        # A pod that was bound to a card just before the card disappeared is rightly refused.
        wrong = [node for node in self._observer.refused.values() if node not in self._operations.lost_cards]
        if wrong and not self._options.fault_seconds:
            what = f"kubelets refused {len(wrong)} pods although nothing was broken"
            self._observer.report(Violation("pod_refused", detail=what))

    def describe(self) -> str:
        """Return in a line what the storm was."""
        parts = [
            f"rounds {self._rounds}",
            f"operations {self._count}",
            f"faults {sum(self._faulting.counts.values())}",
            f"clean after {self._longest:.1f} s",
            f"refused by kubelets {len(self._observer.refused)}",
        ]
        if (stood_still := self._clock.stood_still - self._stood_still) >= WORTH_SAYING_SECONDS:
            parts.append(f"the machine stood still for {stood_still:.0f} s")
        return ", ".join(parts)

    def list_faults(self) -> str:
        """Return how often each fault was done."""
        return ", ".join(f"{name} {count}" for name, count in sorted(self._faulting.counts.items()))

    def explain(self) -> list[str]:
        """Return what led to the violations."""
        return self._history.explain(self.violations)

    def digest(self) -> str:
        """Return what identifies the first round's steps: the same seed draws others after a change of the schedule."""
        text = "\n".join(map(str, self._plan(0)))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def _plan(self, number: int) -> list[Step]:
        options = self._options
        processes = -(-options.nodes // self._laboratory.shape.nodes_per_process)
        without = {*options.without.split(","), *(() if len(options.dialects.split(",")) > 1 else ("change_dialect",))}
        return plan_round(
            self._seed,
            number,
            min(STORM_SECONDS, options.seconds),
            options.burst,
            processes=processes,
            fault_seconds=options.fault_seconds,
            without=without,
        )

    async def _run_round(self, number: int) -> None:
        steps = self._plan(number)
        await self._perform(steps)
        ended, stood_still = time.monotonic(), self._clock.stood_still
        await self._calm_down()
        seconds = time.monotonic() - ended
        if not self.violations:
            await self._compare_with_audit()
            await self._compare_footprints()
        if (number + self._seed) % INJECT_EVERY == 0 and not self.violations:
            await inject(self._laboratory, self._observer, self._history.note, random.Random(self._seed).random())
            await self._calm_down()
        self._rounds += 1
        self._count += sum(not self._faulting.handles(step) for step in steps)
        self._longest = max(self._longest, seconds)
        faults = sum(map(self._faulting.handles, steps))
        pods = len(self._observer.facts.pods) if self._observer.facts else 0
        text = f"{len(steps) - faults} operations, {faults} faults, {pods} pods, "
        text += "violated" if self._observer.overdue else f"clean after {seconds:.1f} s"
        if (lost := self._clock.stood_still - stood_still) >= WORTH_SAYING_SECONDS:
            text += f"; the machine stood still for {lost:.0f} s of these"
        self._history.note(f"round {number}: {text}")
        if self._options.seconds > STORM_SECONDS:
            print(f"  round {number}: {text}", flush=True)
        await self._operations.clean_up()

    async def _perform(self, steps: Sequence[Step]) -> None:
        began = time.monotonic()
        tasks = []
        for step in steps:
            await asyncio.sleep(max(0.0, began + step.at - time.monotonic()))
            if self.violations:
                break
            self._history.note(f"step {step}")
            performer = self._faulting if self._faulting.handles(step) else self._operations
            tasks.append(asyncio.create_task(performer.perform(step)))
        try:
            await asyncio.gather(*tasks)
            await self._faulting.wait_until_repaired()
        except TimeoutError as exc:
            self._observer.report(Violation("process_ended", detail=str(exc)))
        self._history.note("calm")

    async def _calm_down(self) -> None:
        """Wait until everything holds, or does not in time."""
        observer, ended = self._observer, self._clock.seconds
        looks = observer.looks
        # A look that began before the end says nothing yet.
        while not observer.overdue and (observer.found or observer.looks < looks + 2):
            if self._clock.seconds - ended > CALM_SECONDS:
                what = f"not clean after {CALM_SECONDS:.0f} s: {[str(each) for each in observer.found or ()]}"
                observer.report(Violation("never_calm", detail=what))
            await asyncio.sleep(0.2)

    async def _compare_with_audit(self) -> None:
        findings = await self._observer.audit()
        if findings is None:
            what = "the audit cannot tell, and everything can be read"
            self._observer.report(Violation("audit_disagrees", detail=what))
        elif findings and not self._observer.found:
            what = f"the checker finds nothing, the audit {findings}"
            self._observer.report(Violation("audit_disagrees", detail=what))

    async def _compare_footprints(self) -> None:
        """Compare what processes take, as soon as they have closed the connections that they need no more."""
        deadline = self._clock.seconds + SETTLE_SECONDS
        while (
            violations := self._footprints.compare(now := self._read_footprints())
        ) and self._clock.seconds < deadline:
            await asyncio.sleep(1.0)
        self._footprints.add(now)
        for violation in violations:
            self._observer.report(violation)

    def _read_footprints(self) -> dict[str, Footprint]:
        now = {}
        for name, member in self._laboratory.members.items():
            # The rest may end by itself, and is started again.
            if not name.startswith(OURS):
                continue
            for code in member.unexpected_ends:
                what = f"{name} ended by itself with {code}; its log is {member.log.name} or the one before"
                self._observer.report(Violation("process_ended", detail=what))
            member.unexpected_ends.clear()
            footprint = read_footprint(member.pid or 0, self._laboratory.gates[name].watches)
            if footprint is not None:
                now[name] = footprint
        return now
