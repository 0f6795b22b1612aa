"""Give the extender and the node agent a million hostile objects of each kind, and see that nothing breaks.

    python scripts/fuzz.py                                # all subjects, 1,000,000 objects each
    python scripts/fuzz.py --objects 10000 cluster/gas    # one of them
    python scripts/fuzz.py --seed 7 --round 123 cluster/gas

What is generated and what must hold is in tests/fuzzing; unit tests run a little of it. All follows from the seed: a
finding names the round in which it appears again. The exit status is 1 where something was found.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fuzzing.rounds import Tally
from fuzzing.runs import OBJECTS_PER_ROUND, SUBJECTS, Findings, run_rounds

CHUNK = 25


def main() -> int:
    """Run it; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(SUBJECTS))
    parser.add_argument("--objects", type=int, default=1_000_000, help="of each subject")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--round", type=int, help="run this one alone")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if unknown := set(options.subjects) - SUBJECTS.keys():
        parser.error(f"no such subject: {', '.join(sorted(unknown))}")
    rounds = range(-(-options.objects // OBJECTS_PER_ROUND)) if options.round is None else [options.round]
    print(f"seed {options.seed}")
    failed = False
    with ProcessPoolExecutor(options.processes) as pool:
        for subject in options.subjects or SUBJECTS:
            failed |= run_subject(pool, subject, options.seed, rounds)
    return 1 if failed else 0


def run_subject(pool: ProcessPoolExecutor, subject: str, seed: int, rounds: range | list[int]) -> bool:
    """Run a subject's rounds and print what came of them; return whether something was found."""
    began, tally, findings = time.monotonic(), Tally(), Findings()
    chunks = [rounds[first : first + CHUNK] for first in range(0, len(rounds), CHUNK)]
    for done, future in enumerate(as_completed(pool.submit(run_rounds, subject, seed, each) for each in chunks), 1):
        some, found = future.result()
        tally.add(some)
        for kind, (count, first, text) in found.by_kind.items():
            findings.add(kind, count, first, text)
        if sys.stderr.isatty() or done % 40 == 0:
            print(f"{subject}: {tally.objects:,} objects", end="\r", file=sys.stderr)
    minutes = (time.monotonic() - began) / 60
    print(f"\n{subject}: {tally.objects:,} objects in {len(rounds):,} rounds, {minutes:.1f} minutes")
    print("  " + ", ".join(f"{name} {count:,}" for name, count in sorted(tally.counts.items())))
    for name, (seconds, text) in sorted(tally.slowest.items(), key=lambda each: -each[1][0])[:3]:
        print(f"  slowest {name}: {seconds * 1000:.0f} ms of processor time, {text[:200]}")
    for kind, (count, first, text) in sorted(findings.by_kind.items(), key=lambda each: -each[1][0]):
        print(f"  FOUND in {count} rounds: {kind}")
        print(f"    again by: scripts/fuzz.py --seed {seed} --round {first} {subject}")
        print(f"    {text}")
    return bool(findings.by_kind)


if __name__ == "__main__":
    sys.exit(main())
