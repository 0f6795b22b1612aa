"""The command `accelkit cache-scan`."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Final

import click

from accelkit import __version__
from accelkit.cacheagent.scanning.document import SCAN_SECONDS, write_document
from accelkit.cacheagent.scanning.walk import PODS_FOLDER, Scan, scan_copies
from accelkit.errors import ConfigurationError
from accelkit.logs import ErrorReporter, Facts, set_up_service_log
from accelkit.stop_signals import awaiting_stop_signals

log = logging.getLogger(__name__)

# The scan has a low priority and uses at most this share of a CPU, so that it does not slow down workloads.
_NICENESS: Final = 10
_SHARE_OF_TIME: Final = 0.1
_LONGEST_PAUSE: Final = 4 * SCAN_SECONDS
_RIGHTS: Final = "run the scan as root with CAP_DAC_READ_SEARCH, and with an SELinux type that may read the folders"


@click.command("cache-scan", short_help="Count the kernels that workloads had to compile.")
@click.version_option(__version__, prog_name="accelkit cache-scan")
@click.option(
    "--folder",
    required=True,
    envvar="ACCELKIT_SCAN_FOLDER",
    type=click.Path(path_type=Path),
    help="Folder that is shared with the cache agent.",
)
@click.option(
    "--pods-folder",
    envvar="ACCELKIT_PODS_FOLDER",
    type=click.Path(path_type=Path),
    default=PODS_FOLDER,
    show_default=True,
    help="Folder of the kubelet that contains the volumes of pods.",
)
def cache_scan(folder: Path, pods_folder: Path) -> None:
    """Repeatedly scan the private copies of caches, and report the files that pods created to the cache agent.

    The scan runs in a separate container of the agent's pod, because it must read the folders of pods. The container
    has no API token and no network access.
    """
    set_up_service_log("accelkit-cache-scan", None)
    if not folder.is_dir():
        raise ConfigurationError(
            f"{folder} is not a folder", next_step="set the folder that is shared with the cache agent"
        )
    os.nice(_NICENESS)
    errors, scan_log = ErrorReporter(log), _ScanLog()
    with awaiting_stop_signals() as wait:
        stopped = False
        while not stopped:
            began = time.monotonic()
            try:
                scan = scan_copies(pods_folder)
                write_document(folder, scan.reports, scan.left_out)
            except OSError as exc:
                errors.report(str(exc), f"cannot scan private copies: {exc}; cache misses are not counted")
            else:
                if scan.closed:
                    errors.report(scan.error, f"cannot read {scan.closed} folders of pods: {scan.error}; {_RIGHTS}")
                else:
                    errors.clear()
                scan_log.log_changes(scan)
            took = time.monotonic() - began
            stopped = wait(min(_LONGEST_PAUSE, max(SCAN_SECONDS, took / _SHARE_OF_TIME)))


class _ScanLog:
    """Logger that records the number of scanned copies, to distinguish "no misses" from "no copies"."""

    def __init__(self) -> None:
        self._logged: tuple[int, int, int] | None = None

    def log_changes(self, scan: Scan) -> None:
        now = len(scan.reports), scan.unfilled, scan.left_out
        if now != self._logged:
            log.info(Facts("private copies scanned", counted=now[0], without_marker=now[1], left_out=now[2]))
        self._logged = now
