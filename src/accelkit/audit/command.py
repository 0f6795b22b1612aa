"""The command `accelkit audit`."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.audit.comparison import UNREADABLE_KINDS, Audit
from accelkit.audit.evidence import Ledger, audit_cluster, query_if_possible
from accelkit.command_options import extender_option, installation_namespace_option, kubeconfig_option
from accelkit.inspection.extender_client import Address, extender_options, query_extender, read_address
from accelkit.inspection.service_proxy import ProxiedExtender
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.output import output_option, print_value

_DIFFERS = 3
_WITHOUT = "audit without the ledger with --no-ledger"


@click.command(
    "audit",
    short_help="Compare ledger, assignments, kubelets and cards.",
    epilog="Exit codes: 0 no differences, 1 error, 2 invalid usage, 3 differences, or the ledger or the allocations of "
    "a node cannot be read.",
)
@click.argument("nodes", nargs=-1)
@extender_option
@extender_options
@click.option("--no-ledger", is_flag=True, help="Omit the extender's ledger from the comparison.")
@kubeconfig_option
@installation_namespace_option
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds for which a difference must persist; shorter differences are changes in progress.",
)
@output_option
def audit_command(  # noqa: PLR0917 - click passes options by name
    nodes: tuple[str, ...],
    extender: str | None,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    server_name: str | None,
    service: str,
    no_ledger: bool,  # noqa: FBT001 - click passes options by name
    kubeconfig: Path | None,
    namespace: str,
    wait: float,
    output: str,
) -> None:
    """Compare the extender's ledger, the assignments of pods, the kubelets' allocations and the cards.

    Without NODES, compare all nodes with cards.
    """
    at = read_address(extender, ca=ca, cert=cert, key=key, server_name=server_name)
    extender_at = None if no_ledger else at or service
    found = asyncio.run(_audit(frozenset(nodes), extender_at, kubeconfig, namespace=namespace, wait_seconds=wait))
    print_value(found, output, lambda: _table(found))
    if found.findings:
        sys.exit(_DIFFERS)


async def _audit(
    nodes: frozenset[str],
    extender: Address | str | None,
    kubeconfig: Path | None,
    *,
    namespace: str,
    wait_seconds: float,
) -> Audit:
    async with ApiClient(load_connection(kubeconfig)) as api:
        ledger: Ledger | None = None
        if isinstance(extender, Address):
            ledger = partial(query_extender, extender, None)
        elif extender is not None:
            ledger = partial(query_if_possible, ProxiedExtender(api, namespace, extender, instead=_WITHOUT))
        return await audit_cluster(api, namespace=namespace, seconds=wait_seconds, nodes=nodes, ledger=ledger)


def _table(found: Audit) -> RenderableType:
    lines = [
        Text(f"{finding.kind}  ", style="red").append(finding.message, style="default") for finding in found.findings
    ]
    lines += [Text(f"note  {note}", style="bright_black") for note in found.notes]
    lines.append(Text(_summarize(found), style="bold"))
    return Group(*lines)


def _summarize(found: Audit) -> str:
    if not found.findings:
        return "No differences."
    count = sum(each.kind not in UNREADABLE_KINDS for each in found.findings)
    if not count:
        return "No differences in the data that can be compared."
    return f"{count} difference{'' if count == 1 else 's'}."
