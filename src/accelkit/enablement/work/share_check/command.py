"""The command `accelkit share-check`, which check pods run."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from accelkit.enablement.work.share_check.evidence import encode_evidence
from accelkit.enablement.work.share_check.work import check_share, run_with_deadline
from accelkit.errors import ConfigurationError
from accelkit.vendors.profiles import load_usable_profiles


@click.command(
    "share-check",
    short_help="Run a computation with the share of this container.",
    epilog="Exit codes: 0 passed, 1 failed (the JSON line contains the reason), 2 wrong usage.",
)
@click.option(
    "--devices",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/dev"),
    show_default=True,
    help="Folder with the container's device nodes.",
)
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the line to this file, such as the container's termination message.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Time limit for the work, in seconds.",
)
@click.option(
    "--hold",
    type=click.FloatRange(min=0, min_open=True),
    help="Only wait for this number of seconds, or for SIGTERM, so that the pod can be examined.",
)
def share_check(devices: Path, evidence: Path | None, seconds: float, hold: float | None) -> None:
    """Open the devices, read the memory limit, add two vectors, and print the results as one line of JSON."""
    if hold is not None:
        _hold(hold)
        return
    profiles = load_usable_profiles().profiles.values()
    found = run_with_deadline(lambda: check_share(os.environ, devices, profiles), seconds)
    line = encode_evidence(found)
    click.echo(line)
    if evidence is not None:
        try:
            evidence.write_bytes(line)
        except OSError as exc:
            raise ConfigurationError(f"cannot write the evidence to {evidence}: {exc}") from exc
    sys.exit(0 if found.passed else 1)


def _hold(seconds: float) -> None:
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    # Without a handler, SIGTERM does not terminate the first process of a container.
    before = signal.signal(signal.SIGTERM, end)
    try:
        ended.wait(seconds)
    finally:
        signal.signal(signal.SIGTERM, before)
