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
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from faults.checker import Violation  # noqa: E402 - found by the path above
from faults.history import History  # noqa: E402
from faults.laboratory import Laboratory, Shape, open_folders  # noqa: E402
from faults.observer import Observer  # noqa: E402
from faults.operations import Operations  # noqa: E402
from faults.schedule import plan_round  # noqa: E402

STORM_SECONDS = 20.0
CALM_SECONDS = 150.0
# What a round may take without a violation, for the decision whether another one begins.
ROUND_SECONDS = 30.0


async def run_storm(options: argparse.Namespace, results: Path) -> list[Violation]:
    """Run rounds until the time is over or an invariant is violated; return what was violated."""
    history = History(results / "history.txt")
    with open_folders() as (folder, roots):
        laboratory = Laboratory(Shape(nodes=options.nodes), folder, roots)
        try:
            async with laboratory.run():
                print(f"ready after {history.seconds:.0f} s: {options.nodes} nodes", flush=True)
                return await storm(laboratory, history, options)
        except BaseException:
            keep_logs(laboratory, results)
            raise
        finally:
            history.close()


async def storm(laboratory: Laboratory, history: History, options: argparse.Namespace) -> list[Violation]:
    operations = Operations(laboratory, options.pods, history.note)
    observer = Observer(laboratory, history, lambda: operations.expected)
    looking = asyncio.create_task(observer.run())
    deadline = time.monotonic() + options.seconds
    try:
        for number in itertools.count():
            if time.monotonic() + ROUND_SECONDS > deadline and number:
                break
            await run_round(number, observer, operations, history, options)
            if observer.overdue:
                for line in history.explain(observer.overdue):
                    print(line)
                for violation in observer.overdue:
                    print(f"VIOLATION {violation}")
                keep_logs(laboratory, options.results)
                break
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
    return observer.overdue


async def run_round(
    number: int, observer: Observer, operations: Operations, history: History, options: argparse.Namespace
) -> None:
    steps = plan_round(options.seed, number, STORM_SECONDS, options.burst)
    began = time.monotonic()
    tasks = []
    for step in steps:
        await asyncio.sleep(max(0.0, began + step.at - time.monotonic()))
        if observer.overdue:
            break
        history.note(f"step {step}")
        tasks.append(asyncio.create_task(operations.perform(step)))
    await asyncio.gather(*tasks)
    ended = time.monotonic()
    looks = observer.looks
    # A look that began before the end says nothing yet.
    while not observer.overdue and (observer.found or observer.looks < looks + 2):
        if time.monotonic() - ended > CALM_SECONDS:
            observer.report(Violation("not_bound", detail=f"not clean after {CALM_SECONDS:.0f} s: {observer.found}"))
        await asyncio.sleep(0.2)
    clean = time.monotonic() - ended
    pods = len(observer.facts.pods) if observer.facts else 0
    if not observer.overdue:
        await compare_with_audit(observer)
    print(f"round {number}: {len(steps)} steps, {pods} pods, clean after {clean:.1f} s", flush=True)
    await operations.clean_up()


async def compare_with_audit(observer: Observer) -> None:
    findings = await observer.audit()
    if findings is None:
        observer.report(Violation("audit_disagrees", detail="the audit cannot tell, and everything can be read"))
    # What changed meanwhile was nothing of ours: the checker still finds nothing.
    elif findings and not observer.found:
        observer.report(Violation("audit_disagrees", detail=f"the checker finds nothing, the audit {findings}"))


def keep_logs(laboratory: Laboratory, results: Path) -> None:
    shutil.copytree(laboratory.paths.logs, results / "logs", dirs_exist_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--seconds", type=float, default=180.0, help="for the rounds; the start is not counted")
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--pods", type=int, default=150, help="that exist at most")
    parser.add_argument("--burst", type=int, default=25, help="pods that are created at once at most")
    parser.add_argument("--results", type=Path, help="folder for history and logs; default: build/storms/SEED")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    options.results = options.results or REPOSITORY / "build/storms" / str(options.seed)
    violations = asyncio.run(run_storm(options, options.results))
    if violations:
        print(f'again by: make storms STORMS="{describe_again(options)}"')
        print(f"history and logs: {options.results}")
    return 1 if violations else 0


def describe_again(options: argparse.Namespace) -> str:
    return " ".join(
        f"--{name} {getattr(options, name):g}" for name in ("seed", "seconds", "nodes", "pods", "burst")
    ).replace(f"{options.seed:g}", str(options.seed), 1)


if __name__ == "__main__":
    sys.exit(main())
