"""The command `accelkit scheduler-keeper`, which runs in a pod on each control-plane node."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import click
import msgspec

from accelkit import __version__
from accelkit.command_options import kubeconfig_option
from accelkit.errors import ConfigurationError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.logs import set_up_service_log
from accelkit.scheduler.arguments import CredentialsSpec, Spec, decode_spec
from accelkit.scheduler.host.host import LocalHost
from accelkit.scheduler.keeper import COMPONENT, Keeper
from accelkit.stop_signals import on_stop_signal


@click.command("scheduler-keeper", short_help="Keep kube-scheduler configured for the extender.")
@click.version_option(__version__, prog_name="accelkit scheduler-keeper")
@click.option(
    "--spec",
    type=click.Path(path_type=Path),
    required=True,
    help="JSON file with the arguments of the Ansible module scheduler_config, which is read for each check.",
)
@click.option(
    "--credentials",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder with tls.crt, tls.key and ca.crt, if the extender is called over HTTPS.",
)
@click.option("--node", envvar="NODE_NAME", show_envvar=True, required=True, help="Name of this host's node.")
@click.option(
    "--root",
    default="/",
    show_default=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder that contains the files of the host.",
)
@kubeconfig_option
def scheduler_keeper(spec: Path, credentials: Path | None, node: str, root: Path, kubeconfig: Path | None) -> None:
    """Switch the kube-scheduler of this host to the extender again after its manifest was replaced.

    Playbook runs that change the cluster take precedence. Changes and problems are reported by Events on the pod
    kube-scheduler-NODE in kube-system.
    """

    async def run() -> None:
        stop = asyncio.Event()
        on_stop_signal(stop.set)
        connection = load_connection(kubeconfig)
        async with ApiClient(connection) as api:
            await Keeper(api, connection, LocalHost(root), node, partial(read_spec, spec, credentials)).keep(stop)

    set_up_service_log(COMPONENT, None)
    asyncio.run(run())


def read_spec(path: Path, credentials: Path | None) -> Spec:
    """Return the desired settings of kube-scheduler.

    Raises:
        ConfigurationError: a file cannot be read, or is invalid.
    """
    try:
        spec = decode_spec(msgspec.json.decode(path.read_bytes()))
        if credentials is None:
            return spec
        ca, certificate, key = ((credentials / name).read_text() for name in ("ca.crt", "tls.crt", "tls.key"))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"cannot read the desired settings of kube-scheduler: {exc}") from exc
    return msgspec.structs.replace(spec, credentials=CredentialsSpec(ca=ca, certificate=certificate, key=key))
