"""The command `accelkit inspect`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from accelkit.inspection.extender_client import Address, ask_extender, extender_options, load_tls
from accelkit.inspection.inspection import Inspection, inspect_cluster
from accelkit.inspection.layouts import build_aliyun_table
from accelkit.inspection.table import build_inspection_table
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.output import output_option, print_value

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("inspect", short_help="Show cards and who holds them.")
@click.argument("node", required=False)
@click.option(
    "--from-api", is_flag=True, help="Read nodes and pods from the API server instead of asking the extender."
)
@click.option(
    "--extender",
    envvar="ACCELKIT_EXTENDER",
    default="http://127.0.0.1:32766",
    show_default=True,
    help="URL of the extender.",
)
@extender_options
@click.option(
    "--layout",
    type=click.Choice(["accelkit", "aliyun"]),
    default="accelkit",
    show_default=True,
    help="Whose table; `aliyun` is that of kubectl inspect gpushare.",
)
@click.option("--kubeconfig", type=_FILE, help="With --from-api; default: KUBECONFIG, else ~/.kube/config.")
@output_option
def inspect(  # noqa: PLR0917 - click passes options by name
    node: str | None,
    from_api: bool,  # noqa: FBT001 - the same
    extender: str,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    server_name: str | None,
    layout: str,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Show cards, and which pods hold how much of them; of one NODE, or of all."""
    if from_api:
        inspection = asyncio.run(_from_api(kubeconfig, node))
    else:
        inspection = asyncio.run(ask_extender(Address(extender, load_tls(ca, cert, key), server_name), node))
    table = build_aliyun_table if layout == "aliyun" else build_inspection_table
    print_value(inspection, output, lambda: table(inspection))


async def _from_api(kubeconfig: Path | None, node: str | None) -> Inspection:
    async with ApiClient(load_connection(kubeconfig)) as api:
        return await inspect_cluster(api, node=node)
