"""The command `accelkit process-scan`."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from accelkit import __version__
from accelkit.errors import ConfigurationError, DevicePluginError
from accelkit.logs import ErrorReporter
from accelkit.node.host_root import host_root_option
from accelkit.node.processes.passed_on import SCAN_SECONDS, pass_on
from accelkit.stop_signals import awaiting_stop_signals

log = logging.getLogger(__name__)


@click.command("process-scan", short_help="Find the processes that have cards open, for the node agent.")
@click.version_option(__version__, prog_name="accelkit process-scan")
@host_root_option
@click.option(
    "--folder", required=True, type=click.Path(path_type=Path), help="Folder that is shared with the node agent."
)
def process_scan(host_root: Path, folder: Path) -> None:
    """Periodically find the processes on this host that have cards open, and write them to a file for the node agent.

    The command runs in a separate container, because only this command requires the capability SYS_PTRACE.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder", next_step="set the folder that the node agent shares")
    errors = ErrorReporter(log)
    with awaiting_stop_signals() as wait:
        stopped = False
        while not stopped:
            try:
                scanned = pass_on(host_root, folder)
            except DevicePluginError as exc:
                scanned = False
                errors.report(str(exc), f"cannot scan processes for the node agent: {exc}")
            else:
                errors.clear()
            # Retry soon, because an agent that has just started will write the cards shortly.
            stopped = wait(SCAN_SECONDS if scanned else 1.0)
