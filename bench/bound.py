"""What no scheduler could exceed on the lists of openb, by relaxation, beside what `fragmentation` allocates.

For each list and load the arrivals of a replay are given to a linear program that knows all of them beforehand and may
leave out what it likes. It places tasks on kinds of nodes (those that are alike) by these rules:

    - a card is filled by a pattern: shares that add up to one card at most; parts of patterns may be taken;
    - a whole card is a pattern of its own, and a task of several cards takes as many, on nodes that have so many;
    - CPU and memory of all nodes of a kind are one pool; of each task there are as many as came.

Each rule asks for less than real nodes do, so the result is an upper bound for every scheduler, one that sees the
future included. It is loose by what nodes of a kind cannot lend to each other, and by the future: of arrivals that ask
for far more than there is, it takes those that add up.

Patterns are made as they are needed (column generation: a knapsack for each kind of node), and what the patterns not
made could still add is in the bound, so it holds wherever the search ends. scipy's HiGHS solves the programs; it is
among the tools of this checkout (the extra `bench`). The folder with the lists is `--traces` or ACCELKIT_TRACES.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from math import gcd
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt
from figures import Figure, report

from accelkit.simulator.replay import replay
from accelkit.simulator.trace import WHOLE_MILLI, Task, TraceNode, read_nodes, read_tasks
from accelkit.simulator.workload import make_arrivals

# What may be missing to the bound where the search for patterns ends, in cards.
TOLERANCE = 0.01
MOST_ROUNDS = 200

Floats = npt.NDArray[np.float64]


class Program:
    """The linear program of one workload.

    Columns are tasks of a type on a kind of node, then cards of a kind in a pattern. Rows are the shares of a size on a
    kind, cards, CPU and memory of a kind, and the number of each type.

    Args:
        nodes: of the cluster.
        arrivals: what came.
    """

    def __init__(self, nodes: Sequence[TraceNode], arrivals: Sequence[Task]) -> None:
        kinds = Counter((node.cpu_milli, node.memory_mib, node.cards, node.model) for node in nodes if node.cards)
        types = Counter(task for task in arrivals if task.cards)
        self.sizes = sorted({task.milli for task in types})
        self.step = gcd(WHOLE_MILLI, *self.sizes)
        self.cards = np.array([count * kind[2] for kind, count in kinds.items()], dtype=np.float64)
        size_of = {size: place for place, size in enumerate(self.sizes)}
        shares, several = len(kinds) * len(self.sizes), len(kinds)
        self.card_row = shares
        rows = shares + 3 * several + len(types)
        limits = [np.zeros(shares), self.cards]
        limits += [np.array([count * kind[each] for kind, count in kinds.items()], dtype=np.float64) for each in (0, 1)]
        self.limits = np.concatenate([*limits, np.array(list(types.values()), dtype=np.float64)])
        self.gains: list[float] = []
        self.entries: list[tuple[int, int, float]] = []
        for place, kind in enumerate(kinds):
            for number, task in enumerate(types):
                if fits(task, kind):
                    column = len(self.gains)
                    self.gains.append(task.demand_milli / WHOLE_MILLI)
                    host = ((1, task.cpu_milli), (2, task.memory_mib))
                    self.entries += [(shares + each * several + place, column, amount) for each, amount in host]
                    self.entries.append((rows - len(types) + number, column, 1.0))
                    self.entries.append((place * len(self.sizes) + size_of[task.milli], column, task.cards))
        for place in range(several):
            for size, number in size_of.items():
                self.add_pattern(place, {number: WHOLE_MILLI // size})

    def add_pattern(self, kind: int, counts: dict[int, int]) -> None:
        """Add the column of a pattern: how many shares of each size a card holds."""
        column = len(self.gains)
        self.gains.append(0.0)
        self.entries.append((self.card_row + kind, column, 1.0))
        self.entries += [(kind * len(self.sizes) + size, column, -float(count)) for size, count in counts.items()]

    def solve(self) -> float:
        """Return an upper bound of the cards that can be allocated."""
        bound = float("inf")
        for _ in range(MOST_ROUNDS):
            value, prices = self._solve_once()
            of_shares = prices[: self.card_row].reshape(len(self.cards), len(self.sizes))
            of_cards = prices[self.card_row : self.card_row + len(self.cards)]
            worth, counts = fill_card(of_shares, [size // self.step for size in self.sizes], WHOLE_MILLI // self.step)
            better = np.maximum(worth - of_cards, 0.0)
            # If every card of a kind had the best pattern that there is, no more than this would be gained.
            bound = min(bound, value + float((better * self.cards).sum()))
            if bound - value <= TOLERANCE:
                break
            for kind in np.nonzero(better > 1e-9)[0]:
                self.add_pattern(int(kind), counts[int(kind)])
        return bound

    def _solve_once(self) -> tuple[float, Floats]:
        from scipy.optimize import linprog  # noqa: PLC0415 - no dependency of ours
        from scipy.sparse import csr_array  # noqa: PLC0415

        rows, columns, values = zip(*self.entries, strict=True)
        matrix = csr_array((values, (rows, columns)), shape=(len(self.limits), len(self.gains)))
        done: Any = linprog(-np.array(self.gains), A_ub=matrix, b_ub=self.limits, method="highs")
        if done.status != 0:
            raise SystemExit(f"the linear program has no solution: {done.message}")
        return -float(done.fun), np.maximum(-np.asarray(done.ineqlin.marginals), 0.0)


def fits(task: Task, kind: tuple[int, int, int, str]) -> bool:
    cpu, memory, cards, model = kind
    return (
        task.cpu_milli <= cpu
        and task.memory_mib <= memory
        and task.cards <= cards
        and (not task.models or model in task.models)
    )


def fill_card(worth: Floats, sizes: Sequence[int], room: int) -> tuple[Floats, list[dict[int, int]]]:
    """Return for each kind of node what the best pattern of a card is worth, and the pattern: a knapsack.

    Args:
        worth: of one share, by kind and size.
        sizes: in steps.
        room: of a card, in steps.
    """
    best = np.zeros((room + 1, len(worth)))
    taken = np.full((room + 1, len(worth)), -1)
    for left in range(1, room + 1):
        best[left] = best[left - 1]
        for place, size in enumerate(sizes):
            if size <= left:
                with_it = best[left - size] + worth[:, place]
                better = with_it > best[left] + 1e-12
                best[left] = np.where(better, with_it, best[left])
                taken[left] = np.where(better, place, taken[left])
    patterns = []
    for kind in range(len(worth)):
        counts, left = Counter[int](), room
        while left > 0:
            place = int(taken[left, kind])
            if place < 0:
                left -= 1
            else:
                counts[place] += 1
                left -= sizes[place]
        patterns.append(dict(counts))
    return best[room], patterns


def measure(folder: Path, loads: list[float], seeds: int, most: int | None) -> dict[str, object]:
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv")[:most]
    cards, lists = sum(node.cards for node in nodes), {}
    for path in sorted(folder.glob("openb_pod_list_*.csv")):
        tasks, found = read_tasks(path), {}
        for load in loads:
            bounds, allocated = [], []
            for seed in range(42, 42 + seeds):
                arrivals = make_arrivals(tasks, cards, load, Random(seed))  # noqa: S311 - those of the replay
                bounds.append(100 * Program(nodes, arrivals).solve() / cards)
                allocated.append(replay(nodes, tasks, "fragmentation", seed=seed, load=load).gpu_allocation_percent)
            bound, ours = round(mean(bounds), 2), round(mean(allocated), 2)
            # A bound below what is allocated would be none.
            above = Figure(round(bound - ours, 2), 0.0, at_least=True)
            found[f"load {load:g}"] = {"bound": bound, "fragmentation": ours, "bound above fragmentation": above}
            print(path.stem, load, bound, ours, file=sys.stderr)
        lists[path.stem] = found
    return {"seeds": seeds, "lists": lists}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=os.environ.get("ACCELKIT_TRACES"))
    parser.add_argument("--loads", default="0.95,1,1.1,1.3")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--nodes", type=int, help="take so many of the nodes alone")
    options = parser.parse_args()
    if not options.traces:
        print("bound: skipped, since neither --traces nor ACCELKIT_TRACES names the lists", file=sys.stderr)
        return
    loads = [float(load) for load in options.loads.split(",")]
    report(measure(Path(options.traces) / "openb", loads, options.seeds, options.nodes))


if __name__ == "__main__":
    main()
