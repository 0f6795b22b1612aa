"""The command `accelkit simulate`."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from accelkit.output import output_option, print_value
from accelkit.simulator.rankings import RANKINGS
from accelkit.simulator.replay import Replay, replay
from accelkit.simulator.trace import read_nodes, read_tasks

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(short_help="Replay a trace: what a policy makes of it.")
@click.option("--nodes", type=_FILE, required=True, help="CSV of nodes: sn, cpu_milli, memory_mib, gpu, model.")
@click.option(
    "--pods", type=_FILE, required=True, help="CSV of tasks: name, cpu_milli, memory_mib, num_gpu, gpu_milli."
)
@click.option("--policy", type=click.Choice(RANKINGS), required=True, help="Who chooses among the nodes that fit.")
@click.option("--seed", type=int, default=42, show_default=True, help="Fixes the mix of tasks and their order.")
@click.option("--load", type=float, default=1.3, show_default=True, help="Cards asked for, as a part of all cards.")
@output_option
def simulate(  # noqa: PLR0917 - click passes options by name
    nodes: Path, pods: Path, policy: str, seed: int, load: float, output: str
) -> None:
    """Replay a trace in the form of openb through the code that the extender places pods with.

    Tasks are added at random, or left out, until they ask for --load times the cards; they come one at a time, in
    random order, and stay. What fits nowhere is dropped.
    """
    found = replay(read_nodes(nodes), read_tasks(pods), policy, seed=seed, load=load)
    print_value(found, output, lambda: _build_table(found))


def _build_table(found: Replay) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    rows = {
        "policy": found.policy,
        "cards": f"{found.cards} on {found.nodes} nodes",
        "asked for": f"{found.gpu_arrived_percent:.1f} % of them, by {found.arrivals} pods (seed {found.seed})",
        "allocated": f"{found.gpu_allocation_percent:.2f} % of them, to {found.placed} pods",
        "refused": f"{found.refused} pods",
        "decisions": f"{found.decisions_per_second:.0f} a second; {found.decision_p50_ms:.2f} ms each,"
        f" 99 of 100 within {found.decision_p99_ms:.2f} ms",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
