"""How much of all cards each policy allocates, replayed on the lists of openb, beside what its paper published.

Takes the folder with the lists from `--traces` or ACCELKIT_TRACES. Prints JSON: for each list and policy the mean over
the seeds, the least and the most, and how far the mean is from the published one; how far `fragmentation` is above FGD
as published; and its decision times.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from pathlib import Path
from statistics import mean

from figures import Figure, report

from accelkit.simulator.replay import Replay, replay
from accelkit.simulator.trace import read_nodes, read_tasks

PUBLISHED = {"random": "Random", "bestfit": "BestFit", "fgd": "FGD"}
AIM_OF_DIFFERENCE = 0.5
AIM_ABOVE_FGD = 0.5
AIM_P99_MS = 1.0


def read_published(folder: Path) -> dict[tuple[str, str], float]:
    with (folder / "published_allocation.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(row["workload"], row["policy"]): float(row["gpu_allocation_percent_mean"]) for row in rows}


def summarize(replays: list[Replay], published: float | None) -> dict[str, object]:
    percents = [each.gpu_allocation_percent for each in replays]
    found: dict[str, object] = {"mean": round(mean(percents), 3), "least": min(percents), "most": max(percents)}
    if published is not None:
        found["published"] = published
        found["difference"] = Figure(round(abs(mean(percents) - published), 3), AIM_OF_DIFFERENCE)
    return found


def measure(folder: Path, policies: list[str], seeds: int) -> dict[str, object]:
    nodes, published = read_nodes(folder / "openb_node_list_gpu_node.csv"), read_published(folder)
    lists, above, slowest = {}, {}, 0.0
    for path in sorted(folder.glob("openb_pod_list_*.csv")):
        tasks, found = read_tasks(path), {}
        for policy in policies:
            replays = [replay(nodes, tasks, policy, seed=42 + number, load=1.3) for number in range(seeds)]
            found[policy] = summarize(replays, published.get((path.stem, PUBLISHED.get(policy, ""))))
            if policy == "fragmentation":
                allocated = mean(each.gpu_allocation_percent for each in replays)
                above[path.stem] = Figure(round(allocated - published[path.stem, "FGD"], 3), 0.0, at_least=True)
                slowest = max(slowest, *(each.decision_p99_ms for each in replays))
            print(path.stem, policy, found[policy], file=sys.stderr)
        lists[path.stem] = found
    result: dict[str, object] = {"seeds": seeds, "lists": lists}
    if above:
        result["fragmentation above FGD as published"] = above
        of_all = mean(each.figure for each in above.values())
        result["on average"] = Figure(round(of_all, 3), AIM_ABOVE_FGD, at_least=True)
        result["longest p99 of a decision, ms"] = Figure(slowest, AIM_P99_MS)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=os.environ.get("ACCELKIT_TRACES"))
    parser.add_argument("--policies", default="random,bestfit,fgd,binpack,fragmentation")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if not options.traces:
        print("allocation: skipped, since neither --traces nor ACCELKIT_TRACES names the lists", file=sys.stderr)
        return
    report(measure(Path(options.traces) / "openb", options.policies.split(","), options.seeds))


if __name__ == "__main__":
    main()
