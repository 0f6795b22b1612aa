"""Run a storm: operations and faults on a cluster whose accounts are checked all the time.

    python tests/faults/storm.py                            # three minutes, with a new seed
    python tests/faults/storm.py --seed 7 --seconds 600     # the same storm again, longer

The seed is printed first; operations and faults follow from it alone. A storm consists of rounds: it storms, all faults
end, and then everything must hold. The exit status is 1 where an invariant was violated.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from faults.checker import Violation  # noqa: E402 - found by the path above
from faults.faulting import Faulting  # noqa: E402
from faults.footprint import Footprints, read_footprint  # noqa: E402
from faults.history import History, find_log_lines  # noqa: E402
from faults.injection import inject  # noqa: E402
from faults.laboratory import Laboratory, Shape, open_folders  # noqa: E402
from faults.observer import Observer  # noqa: E402
from faults.operations import Operations  # noqa: E402
from faults.schedule import Step, plan_round  # noqa: E402

STORM_SECONDS = 20.0
CALM_SECONDS = 150.0
# What a round may take without a violation, for the decision whether another one begins.
ROUND_SECONDS = 30.0
# After each so many rounds a wrong assignment is injected.
INJECT_EVERY = 3
# The services that are shipped; the rest may end by itself, and is started again.
OURS = ("extender", "agents")


class Storm:
    """One storm on one laboratory."""

    def __init__(self, laboratory: Laboratory, history: History, options: argparse.Namespace) -> None:
        self._laboratory = laboratory
        self._history = history
        self._options = options
        self._operations = Operations(laboratory, options.pods, history.note)
        self._observer = Observer(laboratory, history, lambda: self._operations.expected)
        self._footprints = Footprints()
        self._faulting = Faulting(
            laboratory,
            history.note,
            on_change=self._observer.follow_faults,
            on_removal=self._operations.forget_node,
        )

    async def run(self) -> list[Violation]:
        """Run rounds until the time is over or an invariant is violated; return what was violated."""
        looking = asyncio.create_task(self._observer.run())
        deadline = time.monotonic() + self._options.seconds
        try:
            for number in itertools.count():
                if number and time.monotonic() + ROUND_SECONDS > deadline:
                    break
                await self._run_round(number)
                if self._observer.overdue:
                    self._explain()
                    break
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
        if self._observer.refused and not self._options.fault_seconds:
            what = f"kubelets refused {len(self._observer.refused)} pods although nothing was broken"
            self._observer.report(Violation("pod_refused", detail=what))
        print(f"refused by kubelets: {len(self._observer.refused)} pods")
        print(f"most memory: {self._footprints.describe()}")
        print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(self._faulting.counts.items())))
        return self._observer.overdue

    async def _run_round(self, number: int) -> None:
        options = self._options
        processes = -(-options.nodes // self._laboratory.shape.nodes_per_process)
        without = {*options.without.split(","), *(() if len(options.dialects.split(",")) > 1 else ("change_dialect",))}
        steps = plan_round(
            options.seed,
            number,
            STORM_SECONDS,
            options.burst,
            processes=processes,
            fault_seconds=options.fault_seconds,
            without=without,
        )
        await self._perform(steps)
        ended = time.monotonic()
        await self._calm_down()
        seconds = time.monotonic() - ended
        if not self._observer.overdue:
            await self._compare_with_audit()
            self._compare_footprints()
        if number % INJECT_EVERY == 0 and not self._observer.overdue:
            await inject(self._laboratory, self._observer, self._history.note, random.Random(options.seed).random())
            await self._calm_down()
        faults = sum(map(self._faulting.knows, steps))
        pods = len(self._observer.facts.pods) if self._observer.facts else 0
        print(
            f"round {number}: {len(steps) - faults} operations, {faults} faults, {pods} pods,"
            f" clean after {seconds:.1f} s",
            flush=True,
        )
        await self._operations.clean_up()

    async def _perform(self, steps: Sequence[Step]) -> None:
        began = time.monotonic()
        tasks = []
        for step in steps:
            await asyncio.sleep(max(0.0, began + step.at - time.monotonic()))
            if self._observer.overdue:
                break
            self._history.note(f"step {step}")
            performer = self._faulting if self._faulting.knows(step) else self._operations
            tasks.append(asyncio.create_task(performer.perform(step)))
        try:
            await asyncio.gather(*tasks)
            await self._faulting.wait_until_mended()
        except TimeoutError as exc:
            self._observer.report(Violation("process_ended", detail=str(exc)))
        self._history.note("calm")

    async def _calm_down(self) -> None:
        """Wait until everything holds, or does not in time."""
        observer, ended = self._observer, time.monotonic()
        looks = observer.looks
        # A look that began before the end says nothing yet.
        while not observer.overdue and (observer.found or observer.looks < looks + 2):
            if time.monotonic() - ended > CALM_SECONDS:
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

    def _compare_footprints(self) -> None:
        now = {}
        for name, member in self._laboratory.members.items():
            if not name.startswith(OURS):
                continue
            for code in member.unexpected_ends:
                what = f"{name} ended by itself with {code}; its log is {member.log.name} or the one before"
                self._observer.report(Violation("process_ended", detail=what))
            member.unexpected_ends.clear()
            footprint = read_footprint(member.pid or 0, self._laboratory.gates[name].watches)
            if footprint is not None:
                now[name] = footprint
        for violation in self._footprints.compare(now):
            self._observer.report(violation)

    def _explain(self) -> None:
        for line in self._history.explain(self._observer.overdue):
            print(line)
        for line in find_log_lines(self._laboratory.paths.logs, self._observer.overdue):
            print(line)
        for violation in self._observer.overdue:
            print(f"VIOLATION {violation}")
        keep_logs(self._laboratory, self._options.results)


async def run_storm(options: argparse.Namespace) -> list[Violation]:
    """Run a storm on a laboratory of its own; return what was violated."""
    history = History(options.results / "history.txt")
    with open_folders() as (folder, roots):
        shape = Shape(
            nodes=options.nodes,
            nodes_per_process=options.nodes_per_process,
            dialects=tuple(options.dialects.split(",")),
            dialect=options.dialects.partition(",")[0],
        )
        laboratory = Laboratory(shape, folder, roots)
        try:
            async with laboratory.run():
                print(f"ready after {history.seconds:.0f} s: {options.nodes} nodes", flush=True)
                return await Storm(laboratory, history, options).run()
        except BaseException:
            keep_logs(laboratory, options.results)
            raise
        finally:
            history.close()


def keep_logs(laboratory: Laboratory, results: Path) -> None:
    shutil.copytree(laboratory.paths.logs, results / "logs", dirs_exist_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float, default=180.0, help="for the rounds; the start is not counted")
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--nodes-per-process", type=int, default=3, help="kubelets, and agents, that share a process")
    parser.add_argument("--pods", type=int, default=200, help="that exist at most")
    parser.add_argument("--burst", type=int, default=25, help="pods that are created at once at most")
    parser.add_argument("--fault-seconds", type=float, default=4.0, help="between faults, on average; 0 for none")
    parser.add_argument("--without", default="", help="kinds of faults that are left out, as kill,stop")
    parser.add_argument("--dialects", default="native", help="as native,gcushare: agents change between these")
    parser.add_argument("--results", type=Path, help="folder for history and logs; default: build/storms/SEED")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().getrandbits(32)
    print(f"seed {options.seed}", flush=True)
    options.results = options.results or REPOSITORY / "build/storms" / str(options.seed)
    violations = asyncio.run(run_storm(options))
    if violations:
        print(f'again by: make storms STORMS="{describe_again(parser, options)}"')
        print(f"history and logs: {options.results}")
    return 1 if violations else 0


def describe_again(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """Return the options that repeat a storm: its seed, and what is not as by default."""
    named = {name: value for name, value in vars(options).items() if value != parser.get_default(name)}
    named.pop("results")
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in named.items())


if __name__ == "__main__":
    sys.exit(main())
