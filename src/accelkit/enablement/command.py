"""The command `accelkit verify`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from accelkit.command_options import FILE, installation_namespace_option, kubeconfig_option
from accelkit.enablement.report.formats import ReportFormat, write_report
from accelkit.enablement.report.text import build_table
from accelkit.enablement.report.values import StageReport
from accelkit.enablement.verifying import verify_cluster
from accelkit.errors import ConfigurationError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.output import print_value


@click.command(
    "verify",
    short_help="Report which stage each node has reached.",
    epilog="Exit codes: 0 all stages passed or are not needed, 1 an error that the message explains, 2 wrong usage, "
    "3 a result is stale or unknown, 4 a stage failed or the accounting differs.",
)
@click.argument("nodes", nargs=-1)
@kubeconfig_option
@installation_namespace_option
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Minimum duration of a fault in seconds; shorter faults are changes in progress.",
)
@click.option(
    *("-o", "--output"),
    type=click.Choice([each.value for each in ReportFormat]),
    default="text",
    show_default=True,
    help="Format of the report.",
)
@click.option("--output-file", type=FILE, help="Write the report to this file, and print it as text.")
def verify(  # noqa: PLR0917 - click passes options by name
    nodes: tuple[str, ...],
    kubeconfig: Path | None,
    namespace: str,
    wait: float,
    output: str,
    output_file: Path | None,
) -> None:
    """Check the stages of NODES (default: all nodes that are shared or have cards), and audit their cards.

    The command does not change the cluster. A difference in the accounting is reported only if it lasts for 20 seconds.
    For the checks with pods, the command reports the latest results of playbooks/verify.yml, which runs these checks.
    """
    report = asyncio.run(_verify(kubeconfig, nodes, namespace=namespace, wait_seconds=wait))
    requested = ReportFormat(output)
    if output_file is not None:
        _write(output_file, write_report(report, requested))
    if output_file is not None or requested is ReportFormat.TEXT:
        print_value(report, "table", lambda: build_table(report))
    else:
        click.echo(write_report(report, requested), nl=False)
    sys.exit(report.exit_code)


async def _verify(
    kubeconfig: Path | None, nodes: tuple[str, ...], *, namespace: str, wait_seconds: float
) -> StageReport:
    async with ApiClient(load_connection(kubeconfig)) as api:
        return await verify_cluster(api, namespace=namespace, nodes=nodes, seconds=wait_seconds)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigurationError(
            f"cannot write {path}: {exc.strerror or exc}", next_step="specify another file with --output-file"
        ) from exc
