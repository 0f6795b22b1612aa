"""The command `accelkit inspect`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from accelkit.command_options import extender_option, installation_namespace_option, kubeconfig_option
from accelkit.inspection.extender_client import (
    extender_options,
    query_extender,
    read_address,
)
from accelkit.inspection.inspection import Inspection, inspect_cluster
from accelkit.inspection.layouts import build_aliyun_table
from accelkit.inspection.service_proxy import ProxiedExtender
from accelkit.inspection.table import build_inspection_table
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.output import output_option, print_value


@click.command("inspect", short_help="Show cards and the pods that use them.")
@click.argument("node", required=False)
@click.option("--from-api", is_flag=True, help="Read nodes and pods from the API server instead of the extender.")
@extender_option
@extender_options
@installation_namespace_option
@click.option(
    "--layout",
    type=click.Choice(["accelkit", "aliyun"]),
    default="accelkit",
    show_default=True,
    help="Layout of the table; `aliyun` is the layout of `kubectl inspect gpushare`.",
)
@kubeconfig_option
@output_option
def inspect(  # noqa: PLR0917 - click passes options by name
    node: str | None,
    from_api: bool,  # noqa: FBT001 - the same
    extender: str | None,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    server_name: str | None,
    service: str,
    namespace: str,
    layout: str,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Show the cards of one NODE, or of all nodes, and the amounts of each card that pods hold."""
    at = read_address(extender, ca=ca, cert=cert, key=key, server_name=server_name)
    if at and not from_api:
        inspection = asyncio.run(query_extender(at, node))
    else:
        inspection = asyncio.run(_inspect_cluster(kubeconfig, node, None if from_api else (namespace, service)))
    table = build_aliyun_table if layout == "aliyun" else build_inspection_table
    print_value(inspection, output, lambda: table(inspection))


async def _inspect_cluster(kubeconfig: Path | None, node: str | None, extender: tuple[str, str] | None) -> Inspection:
    async with ApiClient(load_connection(kubeconfig)) as api:
        if extender is None:
            return await inspect_cluster(api, node=node)
        return await ProxiedExtender(api, *extender).query(node)
