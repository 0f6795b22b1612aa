"""The command `accelkit simulate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from rich.table import Table

from accelkit.command_options import FILE
from accelkit.output import output_option, print_value
from accelkit.simulator.rankings import RANKINGS
from accelkit.simulator.replay import Replay, replay
from accelkit.simulator.stays import draw_lifetimes
from accelkit.simulator.trace import read_lifetimes, read_nodes, read_tasks
from accelkit.simulator.turnover import Turnover, replay_turnover

_LOAD: Final = 1.3
_STEADY_LOAD: Final = 0.95


@click.command(short_help="Replay a trace: what a policy makes of it.")
@click.option("--nodes", type=FILE, required=True, help="CSV of nodes: sn, cpu_milli, memory_mib, gpu, model.")
@click.option("--pods", type=FILE, required=True, help="CSV of tasks: name, cpu_milli, memory_mib, num_gpu, gpu_milli.")
@click.option("--policy", type=click.Choice(RANKINGS), required=True, help="Who chooses among the nodes that fit.")
@click.option("--seed", type=int, default=42, show_default=True, help="Fixes the mix of tasks and their order.")
@click.option(
    "--load",
    type=float,
    show_default=f"{_LOAD:g}; {_STEADY_LOAD:g} with --lifetimes",
    help="Cards asked for, as a part of all cards; with --lifetimes those that are asked for at a time.",
)
@click.option(
    "--lifetimes",
    type=FILE,
    help="Have tasks leave: CSV with creation_time and deletion_time, in seconds. It is the list of --pods itself where"
    " that has them; of another list, lifetimes are drawn.",
)
@click.option(
    "--arrivals",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    help="With --lifetimes: how many come after the beginning, when the cluster is as full as the load has it.",
)
@output_option
def simulate(  # noqa: PLR0917 - click passes options by name
    nodes: Path,
    pods: Path,
    policy: str,
    seed: int,
    load: float | None,
    lifetimes: Path | None,
    arrivals: int,
    output: str,
) -> None:
    """Replay a trace in the form of openb through the code that the extender places pods with.

    Tasks are added at random, or left out, until they ask for --load times the cards; they come one at a time, in
    random order, and stay. What fits nowhere is dropped.

    With --lifetimes they leave again. Then as many come as ask for --load times the cards on average, if all were
    placed at once, and what fits nowhere waits.
    """
    cluster, tasks = read_nodes(nodes), read_tasks(pods)
    if lifetimes is None:
        found = replay(cluster, tasks, policy, seed=seed, load=_LOAD if load is None else load)
        print_value(found, output, lambda: _build_table(_describe(found)))
        return
    lasts: Sequence[float] = read_lifetimes(lifetimes)
    if lifetimes.resolve() != pods.resolve():
        lasts = draw_lifetimes(lasts, len(tasks), seed)
    steady = _STEADY_LOAD if load is None else load
    turned = replay_turnover(cluster, tasks, lasts, policy, seed=seed, load=steady, arrivals=arrivals)
    print_value(turned, output, lambda: _build_table(_describe(turned) | _describe_turnover(turned)))


def _describe(found: Replay) -> dict[str, str]:
    return {
        "policy": found.policy,
        "cards": f"{found.cards} on {found.nodes} nodes",
        "asked for": f"{found.gpu_arrived_percent:.1f} % of them, by {found.arrivals} pods (seed {found.seed})",
        "allocated": f"{found.gpu_allocation_percent:.2f} % of them, to {found.placed} pods",
        "refused": f"{found.refused} pods",
        "decisions": f"{found.decisions_per_second:.0f} a second; {found.decision_p50_ms:.2f} ms each,"
        f" 99 of 100 within {found.decision_p99_ms:.2f} ms",
    }


def _describe_turnover(found: Turnover) -> dict[str, str]:
    """Return the rows that are others where tasks leave."""
    return {
        "allocated": f"{found.time_weighted_allocation_percent:.2f} % of them over {found.measured_hours:.1f} h,"
        f" {found.gpu_allocation_percent:.2f} % at the end",
        "refused": f"none; {found.never_placed} pods were never placed",
        "pending": f"{found.pending_mean:.1f} pods on average, {found.pending_most} at most",
        "waited": f"{found.had_to_wait} pods had to; of all pods half within {found.waited_p50_s:.0f} s,"
        f" 99 of 100 within {found.waited_p99_s:.0f} s",
    }


def _build_table(rows: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    return table
