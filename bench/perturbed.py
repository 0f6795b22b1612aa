"""Whether `fragmentation` allocates no less than FGD and BestFit on lists that it was not made for.

Each variant is drawn from the lists of openb: tasks with other frequencies, other shares, and more or less CPU and
memory beside them; on nodes of other frequencies and of larger or smaller hosts. Prints JSON: for each variant what
each policy allocates, as the mean of some orders of arrival, and how far `fragmentation` is above the best of the
others; the least and the mean of that. The folder with the lists is `--traces` or ACCELKIT_TRACES.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import mean

import msgspec
from figures import Figure, report

from accelkit.simulator.replay import replay
from accelkit.simulator.trace import WHOLE_MILLI, Task, TraceNode, read_nodes, read_tasks

POLICIES = ("bestfit", "fgd", "fragmentation")
# What chance makes of two policies that are equally good on a cluster of so many cards, by three orders.
NOISE = -0.25
TASKS = 6000
# How far frequencies spread: the standard deviation of their logarithms.
SPREAD = 1.0


def perturb_tasks(tasks: Sequence[Task], random: Random) -> list[Task]:
    """Return tasks of another mix."""
    sizes = sorted({(task.cards, task.milli) for task in tasks})
    weights = {size: random.lognormvariate(0, SPREAD) for size in sizes}
    shares = {task.milli for task in tasks if task.milli < WHOLE_MILLI}
    other = {milli: 10 * random.randint(5, 95) for milli in shares} if random.random() < 1 / 2 else {}
    cpu, memory = (random.choice((0.5, 0.8, 1.0, 1.25, 1.6)) for _ in range(2))
    drawn = random.choices(tasks, [weights[task.cards, task.milli] for task in tasks], k=TASKS)
    changed = {
        task: msgspec.structs.replace(
            task,
            cpu_milli=round(task.cpu_milli * cpu),
            memory_mib=round(task.memory_mib * memory),
            milli=other.get(task.milli, task.milli) if task.cards else 0,
        )
        for task in set(drawn)
    }
    return [changed[task] for task in drawn]


def perturb_nodes(nodes: Sequence[TraceNode], cards: int, random: Random) -> list[TraceNode]:
    """Return nodes of other frequencies, with so many cards."""
    kinds = sorted({(node.model, node.cards, node.cpu_milli) for node in nodes})
    weights = {kind: random.lognormvariate(0, SPREAD) for kind in kinds}
    cpu = random.choice((0.7, 1.0, 1.0, 1.4))
    found: list[TraceNode] = []
    while sum(node.cards for node in found) < cards:
        (node,) = random.choices(nodes, [weights[each.model, each.cards, each.cpu_milli] for each in nodes])
        found.append(msgspec.structs.replace(node, name=f"n{len(found)}", cpu_milli=round(node.cpu_milli * cpu)))
    return found


def measure(folder: Path, variants: range, cards: int, orders: int) -> dict[str, object]:
    nodes, paths = read_nodes(folder / "openb_node_list_gpu_node.csv"), sorted(folder.glob("openb_pod_list_*.csv"))
    found, above = {}, list[float]()
    for seed in variants:
        random = Random(seed)  # noqa: S311 - a workload is no secret
        path = random.choice(paths)
        tasks, some = perturb_tasks(read_tasks(path), random), perturb_nodes(nodes, cards, random)
        allocated = {
            policy: round(
                mean(
                    replay(some, tasks, policy, seed=order, load=1.3).gpu_allocation_percent
                    for order in range(seed, seed + orders)
                ),
                3,
            )
            for policy in POLICIES
        }
        above.append(round(allocated["fragmentation"] - max(allocated["fgd"], allocated["bestfit"]), 2))
        found[f"{seed} of {path.stem}"] = {**allocated, "above": above[-1]}
        print(seed, path.stem, found[f"{seed} of {path.stem}"], file=sys.stderr)
    return {
        "cards": cards,
        "orders": orders,
        "variants": found,
        "least above the best of the others": Figure(min(above), NOISE, at_least=True),
        "on average": Figure(round(mean(above), 2), 0.0, at_least=True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=os.environ.get("ACCELKIT_TRACES"))
    parser.add_argument("--variants", type=int, default=12)
    parser.add_argument("--cards", type=int, default=1000)
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--first", type=int, default=1, help="seed of the first variant")
    options = parser.parse_args()
    if not options.traces:
        print("perturbed: skipped, since neither --traces nor ACCELKIT_TRACES names the lists", file=sys.stderr)
        return
    variants = range(options.first, options.first + options.variants)
    report(measure(Path(options.traces) / "openb", variants, options.cards, options.orders))


if __name__ == "__main__":
    main()
