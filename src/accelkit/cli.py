"""The command line. Exit codes: 0 done, 1 an error that the message explains, 2 wrong usage."""

from __future__ import annotations

import logging
import sys
from typing import Any

import click

from accelkit import __version__
from accelkit.controlplane.command import config_manager
from accelkit.errors import AccelkitError
from accelkit.extender.command import extender
from accelkit.kernelcache.commands import cache
from accelkit.kernelcache.examples.command import examples
from accelkit.logs import FORMAT
from accelkit.node.command import node_agent
from accelkit.report.audit_command import audit_command
from accelkit.report.command import inspect
from accelkit.sandbox.commands import sandbox


class _Root(click.Group):
    """Errors of ours are one line on stderr; anything else is a defect and keeps its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AccelkitError as exc:
            click.echo(f"Error: {exc}", err=True)
            sys.exit(1)


@click.group(cls=_Root, epilog="Exit codes: 0 done, 1 an error that the message explains, 2 wrong usage.")
@click.version_option(__version__, prog_name="accelkit")
@click.option(
    "--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]), show_default=True
)
def main(log_level: str) -> None:
    """Share the accelerators of a Kubernetes cluster by memory and by card."""
    logging.basicConfig(level=log_level.upper(), format=FORMAT, stream=sys.stderr)


main.add_command(cache)
main.add_command(config_manager)
main.add_command(extender)
main.add_command(node_agent)
main.add_command(inspect)
main.add_command(audit_command)
main.add_command(examples)
main.add_command(sandbox)
