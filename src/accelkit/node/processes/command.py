"""The command `accelkit process-scan`."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path

import click

from accelkit import __version__
from accelkit.errors import ConfigurationError, DevicePluginError
from accelkit.logs import ErrorReporter
from accelkit.node.host_root import host_root_option
from accelkit.node.processes.passed_on import SCAN_SECONDS, pass_on

log = logging.getLogger(__name__)


@click.command("process-scan", short_help="Tell the node agent which processes have cards open.")
@click.version_option(__version__, prog_name="accelkit process-scan")
@host_root_option
@click.option(
    "--folder", required=True, type=click.Path(path_type=Path), help="Folder that is shared with the node agent."
)
def process_scan(host_root: Path, folder: Path) -> None:
    """Look again and again which processes of this host have cards open, and pass it on to the node agent.

    It runs beside the agent, because it needs the right to look into other processes (SYS_PTRACE) and nothing else.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder", next_step="name the folder that the node agent shares")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    errors = ErrorReporter(log)
    while not stop.is_set():
        try:
            looked = pass_on(host_root, folder)
        except DevicePluginError as exc:
            looked = False
            errors.report(str(exc), f"{exc}; the node agent goes without")
        else:
            errors.clear()
        # Before the agent has said what to look for, it soon will.
        stop.wait(SCAN_SECONDS if looked else 1.0)
