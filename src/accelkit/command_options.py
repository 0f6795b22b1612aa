"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from accelkit.logs import LogFormat

FILE: Final = click.Path(path_type=Path, dir_okay=False)
EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

kubeconfig_option = click.option(
    "--kubeconfig",
    envvar="ACCELKIT_KUBECONFIG",
    type=FILE,
    help="Kubeconfig of the cluster (default: the pod's service account, KUBECONFIG or ~/.kube/config, in this order).",
)
installation_namespace_option = click.option(
    "--namespace", default="accelkit", show_default=True, help="Namespace in which accelkit is installed."
)
own_namespace_option = click.option(
    "--namespace", required=True, envvar="ACCELKIT_NAMESPACE", help="Namespace in which accelkit is installed."
)
extender_option = click.option(
    "--extender", envvar="ACCELKIT_EXTENDER", help="URL of the extender (default: its proxy URL on the API server)."
)
log_format_option = click.option(
    "--log-format",
    envvar="ACCELKIT_LOG_FORMAT",
    type=click.Choice([each.value for each in LogFormat]),
    default=LogFormat.TEXT.value,
    show_default=True,
    help="Format of the log: lines of text, or one JSON object per line.",
)
log_folder_option = click.option(
    "--log-dir",
    envvar="ACCELKIT_LOG_DIR",
    type=click.Path(path_type=Path),
    help="Folder of a log file in addition to stdout (default: no log file).",
)
trusted_root_option = click.option(
    "--trusted-root",
    envvar="ACCELKIT_TRUSTED_ROOT",
    type=EXISTING_FILE,
    help="Trusted root of a Sigstore instance, as JSON (default: the installed trusted root of the public instance).",
)
