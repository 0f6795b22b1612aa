"""The command line. Exit codes: 0 done, 1 an error that the message explains, 2 wrong usage."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from accelkit import __version__
from accelkit.errors import AccelkitError
from accelkit.logs import set_up_log

# Each is imported when it is asked for, so that one does not wait for the libraries of all.
COMMANDS = {
    "audit": "accelkit.audit.command:audit_command",
    "cache": "accelkit.kernelcache.commands:cache",
    "cache-agent": "accelkit.cacheagent.command:cache_agent",
    "cache-controller": "accelkit.cachecontroller.command:cache_controller",
    "cache-scan": "accelkit.cacheagent.scanning.command:cache_scan",
    "config-manager": "accelkit.scheduler.command:config_manager",
    "defrag": "accelkit.defragmentation.command:defrag",
    "discover": "accelkit.node.discover_command:discover_command",
    "examples": "accelkit.examples.command:examples",
    "explain": "accelkit.inspection.explanation.command:explain",
    "extender": "accelkit.extender.command:extender",
    "gas-extender": "accelkit.extender.gas.command:gas_extender",
    "host-files": "accelkit.node.host_files:host_files",
    "hardware-check": "accelkit.node.hardware_check.command:hardware_check",
    "inspect": "accelkit.inspection.command:inspect",
    "node-agent": "accelkit.node.command:node_agent",
    "plugins": "accelkit.plugin_report.command:plugins",
    "process-scan": "accelkit.node.processes.command:process_scan",
    "remediation": "accelkit.remediation.command:remediation",
    "renew-certificates": "accelkit.install.certificates.command:renew_certificates",
    "scheduler-keeper": "accelkit.scheduler.keeper_command:scheduler_keeper",
    "sandbox": "accelkit.sandbox.commands:sandbox",
    "share-check": "accelkit.enablement.work.share_check.command:share_check",
    "simulate": "accelkit.simulator.command:simulate",
    "verify": "accelkit.enablement.command:verify",
}


class _Root(click.Group):
    """Errors of ours are one line on stderr; anything else is a defect and keeps its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AccelkitError as exc:
            click.echo(f"Error: {exc}", err=True)
            sys.exit(1)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=_Root, epilog="Exit codes: 0 done, 1 an error that the message explains, 2 wrong usage.")
@click.version_option(__version__, prog_name="accelkit")
@click.option(
    "--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]), show_default=True
)
def main(log_level: str) -> None:
    """Share the accelerators of a Kubernetes cluster by memory and by card."""
    set_up_log(log_level.upper())
