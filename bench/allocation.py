"""How much of all cards each policy allocates, replayed on the lists of openb, beside what its paper published.

Takes the folder with the lists from `--traces` or ACCELKIT_TRACES. Prints JSON: for each list and policy the mean over
the seeds, the least and the most, and how far the mean is from the published one; how far `fragmentation` is above FGD
as published; its decision times; and for one list the curves of all policies, which bench/plots.py draws.

With `--departures LOADS` tasks leave again, after the lifetimes of the list (of the default one where a list has none):
for each list, load and policy the allocation by time, the pods that waited, and how long; how far `fragmentation` is
above the best of the others.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from pathlib import Path
from statistics import mean

from figures import Figure, report

from accelkit.errors import ConfigurationError
from accelkit.simulator.replay import Replay, replay
from accelkit.simulator.stays import draw_lifetimes
from accelkit.simulator.trace import TraceNode, read_lifetimes, read_nodes, read_tasks
from accelkit.simulator.turnover import Turnover, replay_turnover

LISTS = "default,cpu100,gpushare40,gpushare80,gpuspec20,multigpu30"
PUBLISHED = {"random": "Random", "bestfit": "BestFit", "fgd": "FGD"}
AIM_OF_DIFFERENCE = 0.5
AIM_ABOVE_FGD = 0.5
TURNOVER_KEYS = (
    "time_weighted_allocation_percent",
    "gpu_arrived_percent",
    "pending_mean",
    "pending_most",
    "had_to_wait",
    "waited_p50_s",
    "waited_p99_s",
    "never_placed",
    "decision_p99_ms",
)
AIM_P99_MS = 1.0
# What two policies differ by where they do the same but for chance.
AIM_WITH_DEPARTURES = -0.1


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


def average_curves(replays: list[Replay]) -> list[tuple[float, float]]:
    """Return the means of curves whose points are at the same loads but for one task."""
    points = zip(*(each.curve for each in replays), strict=False)
    return [(round(mean(one for one, _ in each), 5), round(mean(two for _, two in each), 5)) for each in points]


def find_lists(folder: Path, names: str) -> list[Path]:
    return [folder / f"openb_pod_list_{name}.csv" for name in names.split(",")]


def measure(
    folder: Path, nodes: list[TraceNode], lists_of: list[Path], policies: list[str], seeds: int
) -> dict[str, object]:
    published = read_published(folder)
    lists, curves, above, slowest = {}, {}, {}, 0.0
    for path in lists_of:
        tasks, found = read_tasks(path), {}
        for policy in policies:
            replays = [replay(nodes, tasks, policy, seed=42 + number, load=1.3) for number in range(seeds)]
            found[policy] = summarize(replays, published.get((path.stem, PUBLISHED.get(policy, ""))))
            if path == lists_of[0]:
                curves[policy] = average_curves(replays)
            if policy == "fragmentation":
                allocated = mean(each.gpu_allocation_percent for each in replays)
                above[path.stem] = Figure(round(allocated - published[path.stem, "FGD"], 3), 0.0, at_least=True)
                slowest = max(slowest, *(each.decision_p99_ms for each in replays))
            print(path.stem, policy, found[policy], file=sys.stderr)
        lists[path.stem] = found
    result: dict[str, object] = {"seeds": seeds, "lists": lists, "curves of": lists_of[0].stem, "policies": curves}
    if above:
        result["fragmentation above FGD as published"] = above
        of_all = mean(each.figure for each in above.values())
        result["on average"] = Figure(round(of_all, 3), AIM_ABOVE_FGD, at_least=True)
        result["longest p99 of a decision, ms"] = Figure(slowest, AIM_P99_MS)
    return result


def read_or_draw_lifetimes(path: Path, tasks: int) -> list[float]:
    try:
        return list(read_lifetimes(path))
    except ConfigurationError:
        return draw_lifetimes(read_lifetimes(path.with_name("openb_pod_list_default.csv")), tasks, seed=42)


def summarize_turnovers(turnovers: list[Turnover]) -> dict[str, float]:
    return {key: round(mean(getattr(each, key) for each in turnovers), 2) for key in TURNOVER_KEYS}


def measure_departures(
    nodes: list[TraceNode], lists_of: list[Path], policies: list[str], seeds: int, *, loads: list[float], arrivals: int
) -> dict[str, object]:
    lists: dict[str, object] = {}
    above: dict[str, Figure] = {}
    for path in lists_of:
        tasks = read_tasks(path)
        lifetimes = read_or_draw_lifetimes(path, len(tasks))
        for load in loads:
            name, found = f"{path.stem}, load {load:g}", dict[str, dict[str, float]]()
            for policy in policies:
                turnovers = [
                    replay_turnover(nodes, tasks, lifetimes, policy, seed=42 + number, load=load, arrivals=arrivals)
                    for number in range(seeds)
                ]
                found[policy] = summarize_turnovers(turnovers)
                print(name, policy, found[policy], file=sys.stderr)
            lists[name] = found
            by_time = {policy: each["time_weighted_allocation_percent"] for policy, each in found.items()}
            if others := [each for policy, each in by_time.items() if policy != "fragmentation"]:
                ours = by_time.get("fragmentation", 0.0)
                above[name] = Figure(round(ours - max(others), 2), AIM_WITH_DEPARTURES, at_least=True)
    return {"seeds": seeds, "arrivals": arrivals, "lists": lists, "fragmentation above the best of the others": above}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=os.environ.get("ACCELKIT_TRACES"))
    parser.add_argument("--policies", default="random,bestfit,fgd,binpack,fragmentation")
    parser.add_argument("--lists", default=LISTS, help="names after openb_pod_list_; the curves are of the first")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nodes", type=int, help="take so many of the nodes alone")
    parser.add_argument("--departures", metavar="LOADS", help="have tasks leave; loads, as 0.8,0.95,1.1")
    parser.add_argument("--arrivals", type=int, default=5000, help="with --departures: how many come")
    options = parser.parse_args()
    if not options.traces:
        print("allocation: skipped, since neither --traces nor ACCELKIT_TRACES names the lists", file=sys.stderr)
        return
    folder, policies = Path(options.traces) / "openb", options.policies.split(",")
    lists = find_lists(folder, options.lists)
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv")[: options.nodes]
    if options.departures:
        loads = [float(load) for load in options.departures.split(",")]
        report(measure_departures(nodes, lists, policies, options.seeds, loads=loads, arrivals=options.arrivals))
    else:
        report(measure(folder, nodes, lists, policies, options.seeds))


if __name__ == "__main__":
    main()
