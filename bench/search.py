"""filter for pods that only a search can judge, on nodes of which no two are alike.

`equal` are 19 plain containers that ask for the same, `mixed` and `tight` ask for different amounts; each is asked
about once. Prints JSON: milliseconds of the whole filter, the longest that the event loop was held meanwhile, and the
ratio of the whole to a filter of one container, which the table judges. Run it on another checkout by PYTHONPATH.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import random
import time

import msgspec
import world
from figures import Figure, report

from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.pod import PodRef
from accelkit.model.request import Kind
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

NODES = 300
CONTAINERS = 19
AIM_OF_HOLD_MS = 250


def build_verbs(nodes: int, numbers: random.Random) -> Verbs:
    """Every card of every node has another amount left."""
    ledger = Ledger(unit_bytes=world.GIB)
    for number in range(nodes):
        inventory, name = world.build_inventory(number), world.format_node_name(number)
        ledger.put_node(name, inventory)
        shares = tuple(Share(card.id, numbers.randrange(1, 60) * world.GIB) for card in inventory.cards)
        ref = PodRef("default", f"pod-{number}", f"uid-{number}")
        ledger.confirm(ref, name, Assignment({"main": shares}), [("main", Kind.APP)])
    return Verbs(ledger, LedgerFeed(ledger, load_dialects(["native"])), Policy.BINPACK)


def build_args(units: list[int], nodes: int) -> Args:
    pod = world.build_pod(1)
    (container,) = pod["spec"]["containers"]
    pod["spec"]["containers"] = [
        {**container, "name": f"c{number}", "resources": {"limits": {"accelkit.io/memory": str(each)}}}
        for number, each in enumerate(units)
    ]
    body = {"Pod": pod, "NodeNames": [world.format_node_name(number) for number in range(nodes)]}
    return msgspec.json.decode(json.dumps(body).encode(), type=Args)


async def measure(verbs: Verbs, args: Args) -> tuple[float, float]:
    """Return how long a filter took, and the longest that others waited, in milliseconds."""
    longest, ended = 0.0, False

    async def wait() -> None:
        nonlocal longest
        while not ended:
            before = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - before)

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    started = time.perf_counter()
    # Before there were turns, filter answered at once.
    answer = verbs.filter(args)
    if inspect.isawaitable(answer):
        await answer
    taken, ended = time.perf_counter() - started, True
    await waiting
    return 1000 * taken, 1000 * max(longest, 0.0 if inspect.isawaitable(answer) else taken)


async def measure_all(nodes: int) -> dict[str, object]:
    numbers = random.Random(1)  # noqa: S311 - the same on every run
    verbs = build_verbs(nodes, numbers)
    kinds = {
        "equal": [20] * CONTAINERS,
        "mixed": [numbers.randrange(5, 40) for _ in range(CONTAINERS)],
        "tight": [numbers.randrange(5, 25) for _ in range(CONTAINERS)],
    }
    floor, _ = await measure(verbs, build_args([24], nodes))
    results: dict[str, object] = {"one container": {"ms": round(floor, 2)}}
    for kind, units in kinds.items():
        taken, held = await measure(verbs, build_args(units, nodes))
        results[kind] = {
            "ms": round(taken, 1),
            "ratio": round(taken / floor, 1),
            "longest_hold_ms": Figure(round(held, 1), AIM_OF_HOLD_MS),
        }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=NODES, help="nodes of 8 cards")
    report(asyncio.run(measure_all(parser.parse_args().nodes)))


if __name__ == "__main__":
    main()
