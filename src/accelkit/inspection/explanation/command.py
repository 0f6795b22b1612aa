"""The command `accelkit explain`."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import click

from accelkit.command_options import extender_option, kubeconfig_option
from accelkit.inspection.explanation.explanation import Explanation, explain_pod
from accelkit.inspection.explanation.extender import NAMESPACE_OPTION, Extender
from accelkit.inspection.explanation.pods import read_pod_in_question
from accelkit.inspection.explanation.table import build_explanation_table
from accelkit.inspection.extender_client import Address, extender_options, read_address
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.output import output_option, print_value

# A long timeout, because the extender processes simulations at low priority, so that they do not delay kube-scheduler.
_SECONDS = 60.0
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@click.command("explain", short_help="Explain why a pod is pending, and which change would make it fit.")
@click.argument("pod")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the pod.")
@click.option("--all", "every", is_flag=True, help="List each node separately instead of grouping similar nodes.")
@click.option("--node", "nodes", multiple=True, metavar="NODE", help="Consider only this node; may be repeated.")
@click.option(
    "--without",
    multiple=True,
    metavar="[NAMESPACE/]POD",
    help="Treat this pod, given by name or UID, as deleted; may be repeated.",
)
@extender_option
@extender_options
@click.option(
    NAMESPACE_OPTION,
    "installed_in",
    default="accelkit",
    show_default=True,
    help="Namespace in which accelkit is installed.",
)
@kubeconfig_option
@output_option
def explain(  # noqa: PLR0917 - click passes options by name
    pod: str,
    namespace: str,
    every: bool,  # noqa: FBT001 - the same
    nodes: tuple[str, ...],
    without: tuple[str, ...],
    extender: str | None,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    server_name: str | None,
    service: str,
    installed_in: str,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Explain why a POD is pending: the reason for each node and card, and the smallest change that makes it fit."""
    at = read_address(extender, ca=ca, cert=cert, key=key, server_name=server_name)
    gone = [each if "/" in each or _UID.fullmatch(each) else f"{namespace}/{each}" for each in without]

    async def read_and_explain(at: Address | None) -> Explanation:
        async with ApiClient(load_connection(kubeconfig), timeout_seconds=_SECONDS) as api:
            found = await read_pod_in_question(api, namespace, pod)
            return await explain_pod(found, Extender(api, at, installed_in, service), nodes=nodes, without=gone)

    explanation = asyncio.run(read_and_explain(at))
    print_value(explanation, output, lambda: build_explanation_table(explanation, every=every))
