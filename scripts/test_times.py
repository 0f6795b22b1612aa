"""Add up how long tests took, by phase, file, test, program and fixture.

    TEST_TIMES=build/times make test-integration    # records
    python scripts/test_times.py build/times        # prints tables, the slowest first

The times of a fixture include those of the fixtures that it requests.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=25, help="of each table")
    options = parser.parse_args()
    rows = [json.loads(line) for file in options.folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    tests = [each for each in rows if each["phase"] not in ("fixture", "program")]
    print_table("phase", ((each["phase"], each["seconds"]) for each in tests), options.rows)
    print_table("file", ((each["file"], each["seconds"]) for each in tests), options.rows)
    print_table("test", ((each["name"], each["seconds"]) for each in tests), options.rows)
    programs = (each for each in rows if each["phase"] == "program")
    print_table("program", ((f"{each['name']} in {each['file']}", each["seconds"]) for each in programs), options.rows)
    fixtures = (each for each in rows if each["phase"] == "fixture")
    print_table("fixture", ((f"{each['name']} in {each['file']}", each["seconds"]) for each in fixtures), options.rows)


def print_table(title: str, times: Iterable[tuple[str, float]], rows: int) -> None:
    """Print the names with the longest times in all."""
    by_name = defaultdict[str, list[float]](list)
    for name, seconds in times:
        by_name[name].append(seconds)
    totals = sorted(((sum(each), len(each), name) for name, each in by_name.items()), reverse=True)
    print(f"\n{title}: {sum(total for total, _, _ in totals):.0f} s")
    for total, count, name in totals[:rows]:
        print(f"{total:9.1f} s {count:6} times  {name}")


if __name__ == "__main__":
    main()
