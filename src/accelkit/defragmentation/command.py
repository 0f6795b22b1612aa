"""The command `accelkit defrag`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import click

from accelkit.command_options import FILE, kubeconfig_option
from accelkit.defragmentation.applying import HOLD_MARGIN_SECONDS, PlanApplier
from accelkit.defragmentation.plan import DefragmentationPlan, Planner
from accelkit.defragmentation.reading import read_cluster
from accelkit.defragmentation.table import build_plan_table
from accelkit.errors import ConfigurationError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.model.hold import MOST_HOLD_SECONDS
from accelkit.output import output_option, print_value
from accelkit.placement.sharing.rules import SharingRules
from accelkit.placement.sharing.rules_text import parse_rules
from accelkit.plugins.policies import list_policy_names, load_policy
from accelkit.vendors.dialects import list_dialect_names

_NOT_BOUND = 3


@click.command(
    "defrag",
    short_help="Plan evictions after which waiting pods fit.",
    epilog="Exit codes: 0 success, 1 error, 2 invalid usage, 3 a pod was not bound within the time limit.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Print the plan without changes to the cluster (default).")
@click.option("--apply", "applies", is_flag=True, help="Print the plan, ask for confirmation, apply it, and wait.")
@click.option("--yes", is_flag=True, help="With --apply: do not ask for confirmation.")
@click.option(
    "--most-evictions",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Maximum number of evictions in the plan.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.IntRange(min=10, max=MOST_HOLD_SECONDS - 2 * HOLD_MARGIN_SECONDS),
    default=300,
    show_default=True,
    help="With --apply: seconds to hold the freed cards and to wait until the pods are bound.",
)
@click.option(
    "--policy",
    type=click.Choice(list_policy_names()),
    default="binpack",
    show_default=True,
    help="Policy by which the extender chooses cards.",
)
@click.option(
    "--dialect",
    "dialects",
    type=click.Choice(list_dialect_names()),
    multiple=True,
    help="Dialect that the extender reads; may be repeated (default: the dialects in use).",
)
@click.option(
    "--sharing-rules",
    type=FILE,
    help="File with the extender's sharing rules. Without it, the plan ignores quotas and reservations.",
)
@kubeconfig_option
@output_option
def defrag(  # noqa: PLR0917 - click passes options by name
    only_plan: bool,  # noqa: FBT001 - the same
    applies: bool,  # noqa: FBT001 - the same
    yes: bool,  # noqa: FBT001 - the same
    most_evictions: int,
    wait_seconds: int,
    policy: str,
    dialects: tuple[str, ...],
    sharing_rules: Path | None,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Plan a few evictions after which waiting pods fit, by priority and within disruption budgets."""
    if only_plan and applies:
        raise click.UsageError("--plan and --apply are mutually exclusive; use only one")
    if yes and not applies:
        raise click.UsageError("--yes requires --apply")
    rules = None if sharing_rules is None else _read_rules(sharing_rules)

    async def read(api: ApiClient) -> DefragmentationPlan:
        return Planner(await read_cluster(api, dialects, rules), load_policy(policy), most_evictions).plan()

    asyncio.run(_run(kubeconfig, read, output, applies=applies, yes=yes, wait_seconds=wait_seconds))


def _read_rules(path: Path) -> SharingRules:
    try:
        return parse_rules(path.read_bytes())
    except (OSError, ConfigurationError) as exc:
        raise ConfigurationError(
            f"cannot read the sharing rules {path}: {exc}",
            next_step="set the file that the extender reads; for its format, see docs/how-to/sharing-rules.md",
        ) from exc


async def _run(
    kubeconfig: Path | None,
    read: Callable[[ApiClient], Awaitable[DefragmentationPlan]],
    output: str,
    *,
    applies: bool,
    yes: bool,
    wait_seconds: int,
) -> None:
    async with ApiClient(load_connection(kubeconfig)) as api:
        plan = await read(api)
        print_value(plan, output, lambda: build_plan_table(plan))
        if not applies or not plan.evictions:
            return
        if not yes:
            click.confirm(f"Evict {plan.evictions} pod{'' if plan.evictions == 1 else 's'} now?", abort=True, err=True)
        bound = await PlanApplier(api, partial(click.echo, err=True), wait_seconds).apply(plan)
        if not bound:
            sys.exit(_NOT_BOUND)
