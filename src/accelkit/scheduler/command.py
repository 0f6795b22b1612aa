"""The command `accelkit config-manager`, which a control-plane pod runs to reconfigure the node's kube-scheduler."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from accelkit import __version__
from accelkit.command_options import kubeconfig_option
from accelkit.errors import AccelkitError, ConfigurationError
from accelkit.kube.connection import load_connection
from accelkit.scheduler.actions import ACTIONS, perform
from accelkit.scheduler.arguments import decode_spec
from accelkit.scheduler.host.host import LocalHost


@click.command(
    "config-manager",
    short_help="Switch this host's kube-scheduler.",
    epilog="Exit codes: 0 for success, 1 for an error that `msg` of the result explains, 2 for incorrect usage.",
)
@click.version_option(__version__, prog_name="accelkit config-manager")
@click.argument("action", type=click.Choice(sorted(ACTIONS)))
@click.option(
    "--spec",
    "spec_file",
    type=click.File("rb"),
    required=True,
    help="JSON with the arguments of the Ansible module scheduler_config; `-` for standard input.",
)
@click.option(
    "--root",
    default="/",
    show_default=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder that contains the files of the host.",
)
@kubeconfig_option
def config_manager(action: str, spec_file: BinaryIO, root: Path, kubeconfig: Path | None) -> None:
    """Configure the kube-scheduler of this host to call the extender, or restore its configuration.

    ACTION is `apply` or `remove`. `compare` and `compare-removal` only report the changes that these actions would
    make. `check` does the same as `compare`, and also verifies that kube-scheduler runs with its configuration. The
    result is one line of JSON: `changed`, `restored` (whether the recorded original was restored), `problems`
    (sentences) and `diff` (by file). After a failure, it also contains `failed` and `msg`.
    """
    try:
        result = _run(action, spec_file.read(), root, kubeconfig)
    except AccelkitError as exc:
        result = {"failed": True, "msg": str(exc)}
    click.echo(json.dumps(result))
    sys.exit(1 if "failed" in result else 0)


def _run(action: str, content: bytes, root: Path, kubeconfig: Path | None) -> dict[str, Any]:
    try:
        spec = decode_spec(msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"the specification is not JSON: {exc}") from exc
    if root != Path("/") and spec.launch.kind not in {"static_pod", "config_file"}:
        raise ConfigurationError(
            f"cannot restart {spec.launch.kind} from a pod",
            next_step="set scheduler_reach: connection to reach the host through Ansible's connection",
        )
    connection = load_connection(kubeconfig) if spec.node else None
    return perform(action, spec, LocalHost(root), connection)
