"""The command line. Exit codes: 0 for success, 1 for an error that is explained by a message, 2 for incorrect usage."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import click

from accelkit import __version__
from accelkit.errors import AccelkitError
from accelkit.logs import set_up_log

# A command is imported only when it is called, so that the libraries of other commands are not loaded.
USER_COMMANDS: Final = {
    "audit": "accelkit.audit.command:audit_command",
    "cache": "accelkit.kernelcache.commands:cache",
    "defrag": "accelkit.defragmentation.command:defrag",
    "discover": "accelkit.node.discover_command:discover_command",
    "examples": "accelkit.examples.command:examples",
    "explain": "accelkit.inspection.explanation.command:explain",
    "hardware-check": "accelkit.node.hardware_check.command:hardware_check",
    "inspect": "accelkit.inspection.command:inspect",
    "plugins": "accelkit.plugin_report.command:plugins",
    "sandbox": "accelkit.sandbox.commands:sandbox",
    "simulate": "accelkit.simulator.command:simulate",
    "verify": "accelkit.enablement.command:verify",
}
SERVICES: Final = {
    "cache-agent": "accelkit.cacheagent.command:cache_agent",
    "cache-controller": "accelkit.cachecontroller.command:cache_controller",
    "cache-scan": "accelkit.cacheagent.scanning.command:cache_scan",
    "config-manager": "accelkit.scheduler.command:config_manager",
    "extender": "accelkit.extender.command:extender",
    "gas-extender": "accelkit.extender.gas.command:gas_extender",
    "host-files": "accelkit.node.host_files:host_files",
    "node-agent": "accelkit.node.command:node_agent",
    "process-scan": "accelkit.node.processes.command:process_scan",
    "remediation": "accelkit.remediation.command:remediation",
    "renew-certificates": "accelkit.install.certificates.command:renew_certificates",
    "scheduler-keeper": "accelkit.scheduler.keeper_command:scheduler_keeper",
    "share-check": "accelkit.enablement.work.share_check.command:share_check",
}


class _Root(click.Group):
    """Root command. It prints an AccelkitError as one line. Other exceptions are bugs, and it prints a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AccelkitError as exc:
            click.echo(f"Error: {exc}", err=True)
            sys.exit(1)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return [*USER_COMMANDS, *SERVICES]

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        place = USER_COMMANDS.get(name) or SERVICES.get(name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List services in a separate section, because they are started by playbooks and not by users."""
        limit = formatter.width - 6 - max(map(len, self.list_commands(ctx)))
        for title, names in (("Commands", USER_COMMANDS), ("Services (deployed by site.yml)", SERVICES)):
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(name, each.get_short_help_str(limit)) for name, each in found if each is not None])


@click.group(
    cls=_Root, epilog="Exit codes: 0 for success, 1 for an error that the message explains, 2 for incorrect usage."
)
@click.version_option(__version__, prog_name="accelkit")
@click.option(
    "--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]), show_default=True
)
def main(log_level: str) -> None:
    """Share the accelerators of a Kubernetes cluster by memory and by card."""
    set_up_log(log_level.upper())
