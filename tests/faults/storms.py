"""Run storms: operations and faults on a cluster whose accounts are checked all the time.

    python tests/faults/storms.py                                       # one of three minutes, with a new seed
    python tests/faults/storms.py --storms 100 --seconds 20 --keep      # short ones; results go into seeds.txt
    python tests/faults/storms.py --seed 7 --seconds 20                 # one of them again

Operations and faults follow from a storm's seed alone, which is printed first. One laboratory runs many storms one
after the other; between two of them it is restored. The first storm that is violated ends the run, unless --go-on is
given. The exit status is 1 where an invariant was violated.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from faults.checker import Violation  # noqa: E402 - found by the path above
from faults.footprint import Footprints  # noqa: E402
from faults.history import History, find_log_lines  # noqa: E402
from faults.laboratory import Laboratory, Shape, open_folders  # noqa: E402
from faults.restoring import restore  # noqa: E402
from faults.standstill import MachineClock  # noqa: E402
from faults.storm import Storm  # noqa: E402

SEEDS = Path(__file__).with_name("seeds.txt")


class Series:
    """Storms one after the other.

    Attributes:
        violated: how many were violated.
    """

    def __init__(self, parser: argparse.ArgumentParser, options: argparse.Namespace, seeds: Sequence[int]) -> None:
        self._options = options
        self._seeds = list(seeds)
        self._words = describe_options(parser, options)
        self._done = self.violated = 0

    async def run(self) -> None:
        """Run all of them, each so many on a laboratory of their own; a new one after a violation."""
        while self._done < len(self._seeds) and (not self.violated or self._options.go_on):
            await self._run_laboratory()

    async def _run_laboratory(self) -> None:
        began, options = time.monotonic(), self._options
        dialects = tuple(options.dialects.split(","))
        shape = Shape(
            nodes=options.nodes, nodes_per_process=options.nodes_per_process, dialects=dialects, dialect=dialects[0]
        )
        footprints = Footprints()
        with open_folders() as (folder, roots):
            laboratory = Laboratory(shape, folder, roots)
            try:
                async with laboratory.run():
                    print(f"ready after {time.monotonic() - began:.0f} s: {options.nodes} nodes", flush=True)
                    with MachineClock(laboratory.list_pids) as clock:
                        for seed in self._seeds[self._done : self._done + options.storms_per_start]:
                            if not await self._run_storm(seed, laboratory, footprints, clock):
                                break
                    print(f"most memory: {footprints.describe()}", flush=True)
            except BaseException:
                keep_logs(laboratory, options.results / "laboratory")
                raise

    async def _run_storm(self, seed: int, laboratory: Laboratory, footprints: Footprints, clock: MachineClock) -> bool:
        """Run a storm, and restore the laboratory; return whether everything held."""
        options, results = self._options, self._options.results / str(seed)
        print(f"storm {self._done + 1} of {len(self._seeds)}: seed {seed}", flush=True)
        began, shape = time.monotonic(), laboratory.shape
        former = (shape.unit, shape.policy, shape.dialect)
        history = History(results / "history.txt")
        storm = Storm(seed, laboratory, history, options, footprints=footprints, clock=clock)
        try:
            await storm.run()
            if not storm.violations:
                try:
                    await restore(laboratory, *former)
                except TimeoutError as exc:
                    storm.violations.append(Violation("never_calm", detail=str(exc)))
        except BaseException:
            keep_logs(laboratory, results)
            raise
        finally:
            history.close()
        held = not storm.violations
        verdict = "held" if held else "VIOLATED"
        print(f"  {verdict}: {storm.describe()}; {time.monotonic() - began:.0f} s in all", flush=True)
        if faults := storm.list_faults():
            print(f"  faults: {faults}", flush=True)
        if held:
            shutil.rmtree(results)
        else:
            self._explain(seed, storm, laboratory, results)
        if options.keep:
            with SEEDS.open("a") as table:
                print(f"{seed:<10} {storm.digest()} {verdict.lower():<8} {self._words}: {storm.describe()}", file=table)
        self._done += 1
        self.violated += not held
        return held

    def _explain(self, seed: int, storm: Storm, laboratory: Laboratory, results: Path) -> None:
        for line in (*storm.explain(), *find_log_lines(laboratory.paths.logs, storm.violations)):
            print(line)
        for violation in storm.violations:
            print(f"VIOLATION {violation}")
        keep_logs(laboratory, results)
        print(f'again by: make storms STORMS="--seed {seed} {self._words}"')
        print(f"history and logs: {results}", flush=True)


def keep_logs(laboratory: Laboratory, results: Path) -> None:
    shutil.copytree(laboratory.paths.logs, results / "logs", dirs_exist_ok=True)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="run this storm alone")
    parser.add_argument("--storms", type=int, default=1, help="with new seeds")
    parser.add_argument("--storms-per-start", type=int, default=25, help="on one laboratory")
    parser.add_argument("--go-on", action="store_true", help="do not end at the first storm that is violated")
    parser.add_argument("--keep", action="store_true", help=f"append results to {SEEDS.relative_to(REPOSITORY)}")
    parser.add_argument("--results", type=Path, default=REPOSITORY / "build/storms", help="for histories and logs")
    storm = parser.add_argument_group("storm", "A seed repeats its storm with the same of these.")
    storm.add_argument("--seconds", type=float, default=180.0, help="for the rounds; the start is not counted")
    storm.add_argument("--nodes", type=int, default=6)
    storm.add_argument("--nodes-per-process", type=int, default=3, help="kubelets, and agents, that share a process")
    storm.add_argument("--pods", type=int, default=200, help="that exist at most")
    storm.add_argument("--burst", type=int, default=25, help="pods that are created at once at most")
    storm.add_argument("--fault-seconds", type=float, default=4.0, help="between faults, on average; 0 for none")
    storm.add_argument("--without", default="", help="kinds of faults that are left out, as kill,stop")
    storm.add_argument("--dialects", default="native", help="as native,gcushare: agents change between these")
    return parser


def describe_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """Return the options that repeat a storm beside its seed: those that are not as by default."""
    beside = ("seed", "storms", "storms_per_start", "go_on", "keep", "results")
    named = {
        name: value
        for name, value in vars(options).items()
        if name not in beside and (name == "seconds" or value != parser.get_default(name))
    }
    return " ".join(
        f"--{name.replace('_', '-')} {f'{value:g}' if isinstance(value, float) else value}"
        for name, value in named.items()
    )


def draw_seed() -> int:
    return random.SystemRandom().getrandbits(32)


def main() -> int:
    parser = build_parser()
    options = parser.parse_args()
    seeds = [options.seed] if options.seed is not None else [draw_seed() for _ in range(options.storms)]
    print(f"seed {seeds[0]}", flush=True)
    series = Series(parser, options, seeds)
    asyncio.run(series.run())
    return 1 if series.violated else 0


if __name__ == "__main__":
    sys.exit(main())
