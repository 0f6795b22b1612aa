"""The option by which commands are told where the files of the host lie, which in a pod is not the root."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

host_root_option: Final = click.option(
    "--host-root",
    envvar="ACCELKIT_HOST_ROOT",
    default="/",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where the host's files lie.",
)
