"""The command `accelkit defrag`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path

import click

from accelkit.defragmentation.plan import Plan, Planner
from accelkit.defragmentation.reading import read_cluster
from accelkit.defragmentation.table import build_plan_table
from accelkit.errors import ApiError, ConfigurationError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.disruptions.evictions import evict
from accelkit.model.pod import PodRef
from accelkit.output import output_option, print_value
from accelkit.placement.sharing.rules import SharingRules
from accelkit.placement.sharing.rules_text import parse_rules
from accelkit.plugins.policies import list_policy_names, load_policy
from accelkit.vendors.dialects import list_dialect_names

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("defrag", short_help="Plan evictions that let pods in that wait for cards.")
@click.option("--plan", "only_plan", is_flag=True, help="Print the plan, and change nothing; the default.")
@click.option("--apply", "applies", is_flag=True, help="Print the plan, ask, and evict.")
@click.option("--yes", is_flag=True, help="With --apply: do not ask.")
@click.option("--most-evictions", type=click.IntRange(min=1), default=10, show_default=True, help="Of the whole plan.")
@click.option(
    "--policy",
    type=click.Choice(list_policy_names()),
    default="binpack",
    show_default=True,
    help="With which the extender chooses cards.",
)
@click.option(
    "--dialect",
    "dialects",
    type=click.Choice(list_dialect_names()),
    multiple=True,
    help="Those that the extender reads, each by one --dialect; default: those that are in use, as far as can be seen.",
)
@click.option(
    "--sharing-rules",
    type=_FILE,
    help="The extender's file of quotas and reserved cards; without it none are known.",
)
@click.option("--kubeconfig", type=_FILE, help="Default: KUBECONFIG, else ~/.kube/config.")
@output_option
def defrag(  # noqa: PLR0917 - click passes options by name
    only_plan: bool,  # noqa: FBT001 - the same
    applies: bool,  # noqa: FBT001 - the same
    yes: bool,  # noqa: FBT001 - the same
    most_evictions: int,
    policy: str,
    dialects: tuple[str, ...],
    sharing_rules: Path | None,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Plan which few evictions would let pods in that wait for cards; by priority, and within disruption budgets."""
    if only_plan and applies:
        raise click.UsageError("--plan changes nothing, --apply does: give one of them")
    if yes and not applies:
        raise click.UsageError("--yes needs --apply")
    rules = None if sharing_rules is None else _read_rules(sharing_rules)

    async def read(api: ApiClient) -> Plan:
        return Planner(await read_cluster(api, dialects, rules), load_policy(policy), most_evictions).plan()

    asyncio.run(_run(kubeconfig, read, output, applies=applies, yes=yes))


def _read_rules(path: Path) -> SharingRules:
    try:
        return parse_rules(path.read_bytes())
    except (OSError, ConfigurationError) as exc:
        raise ConfigurationError(
            f"{path}: {exc}", next_step="give the file that the extender reads, as docs/sharing-rules.md describes it"
        ) from exc


async def _run(
    kubeconfig: Path | None, read: Callable[[ApiClient], Awaitable[Plan]], output: str, *, applies: bool, yes: bool
) -> None:
    async with ApiClient(load_connection(kubeconfig)) as api:
        plan = await read(api)
        print_value(plan, output, lambda: build_plan_table(plan))
        if not applies or not plan.evictions:
            return
        if not yes:
            click.confirm(f"Evict {plan.evictions} pods now?", abort=True, err=True)
        await _apply(api, plan)


async def _apply(api: ApiClient, plan: Plan) -> None:
    """Evict, step by step.

    Raises:
        ApiError: an eviction was refused; what comes after it is not tried.
    """
    for step in plan.steps:
        pods = [PodRef(each.namespace, each.pod, each.uid) for each in step.evictions]
        for dry_run in (True, False):
            for pod in pods:
                await _evict(api, pod, dry_run=dry_run)
                if not dry_run:
                    click.echo(f"evicted {pod} for {step.namespace}/{step.pod}", err=True)


async def _evict(api: ApiClient, pod: PodRef, *, dry_run: bool) -> None:
    try:
        await evict(api, pod, dry_run=dry_run)
    except ApiError as exc:
        if exc.not_found:
            return
        budget = " by a PodDisruptionBudget" if exc.status == HTTPStatus.TOO_MANY_REQUESTS else ""
        raise ApiError(
            f"evicting {pod} is refused{budget}: {exc.message}",
            status=exc.status,
            next_step="run `accelkit defrag --plan` again: the cluster is not what it was",
        ) from exc
