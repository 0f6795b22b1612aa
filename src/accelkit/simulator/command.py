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


@click.command(short_help="Replay a trace and report what a policy allocates.")
@click.option("--nodes", type=FILE, required=True, help="CSV of nodes: sn, cpu_milli, memory_mib, gpu, model.")
@click.option("--pods", type=FILE, required=True, help="CSV of tasks: name, cpu_milli, memory_mib, num_gpu, gpu_milli.")
@click.option(
    "--policy", type=click.Choice(RANKINGS), required=True, help="Policy that chooses among the nodes that fit."
)
@click.option("--seed", type=int, default=42, show_default=True, help="Seed for the selection and order of the tasks.")
@click.option(
    "--load",
    type=float,
    show_default=f"{_LOAD:g}; {_STEADY_LOAD:g} with --lifetimes",
    help="Requested cards relative to all cards; with --lifetimes, the cards that are requested at the same time.",
)
@click.option(
    "--lifetimes",
    type=FILE,
    help="CSV with the lifetimes of tasks: creation_time and deletion_time, in seconds. If it is the file of --pods,"
    " each task has its own lifetime; otherwise, lifetimes are drawn at random.",
)
@click.option(
    "--arrivals",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    help="With --lifetimes: number of tasks that arrive after the cluster was initially filled to the load.",
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
    """Replay a trace in openb's format with the extender's placement code.

    Tasks are repeated or omitted at random until they request --load times the cards. They arrive one at a time, in
    random order, and do not end. Tasks that fit on no node are dropped.

    With --lifetimes, tasks end. The arrival rate is such that tasks would request --load times the cards on average if
    each task were placed immediately. Tasks that fit on no node wait.
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
        "requested": f"{found.gpu_arrived_percent:.1f} % of the cards, by {found.arrivals} pods (seed {found.seed})",
        "allocated": f"{found.gpu_allocation_percent:.2f} % of the cards, to {found.placed} pods",
        "refused": f"{found.refused} pods",
        "decisions": f"{found.decisions_per_second:.0f} per second; {found.decision_p50_ms:.2f} ms each,"
        f" 99 % within {found.decision_p99_ms:.2f} ms",
    }


def _describe_turnover(found: Turnover) -> dict[str, str]:
    """Return the table rows that are different for a replay in which tasks finish."""
    return {
        "allocated": f"{found.time_weighted_allocation_percent:.2f} % of the cards over {found.measured_hours:.1f} h,"
        f" {found.gpu_allocation_percent:.2f} % at the end",
        "refused": f"none; {found.never_placed} pods were never placed",
        "pending": f"{found.pending_mean:.1f} pods on average, {found.pending_most} at most",
        "waited": f"{found.had_to_wait} pods; 50 % of all pods at most {found.waited_p50_s:.0f} s,"
        f" 99 % at most {found.waited_p99_s:.0f} s",
    }


def _build_table(rows: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    return table
