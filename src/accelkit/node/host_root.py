"""The command-line option for the folder with the host's files, which is not the root folder in a pod."""

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
    help="Folder that contains the host's files.",
)
