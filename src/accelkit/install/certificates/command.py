"""The command `accelkit renew-certificates`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import click

from accelkit.command_options import kubeconfig_option
from accelkit.install.certificates.renewal import run_renewal
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(short_help="Renew serving certificates before they end.")
@click.option("--namespace", default="accelkit", show_default=True, help="Namespace of the Secrets.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    default=["accelkit-extender-tls"],
    show_default=True,
    help="Secret with what is renewed; repeatable.",
)
@click.option("--authority", type=_FOLDER, required=True, help="Folder with the authority's tls.crt and tls.key.")
@click.option(
    "--watch",
    type=_FOLDER,
    required=True,
    help="Folder with further certificates, NAME.crt of Secret NAME, of whose end an Event warns.",
)
@click.option(
    "--renew-days",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="How many days before its end a certificate is renewed, or warned about.",
)
@kubeconfig_option
def renew_certificates(  # noqa: PLR0917 - click passes options by name
    namespace: str, secrets: tuple[str, ...], authority: Path, watch: Path, renew_days: int, kubeconfig: Path | None
) -> None:
    """Renew serving certificates where accelkit's authority issued it, and warn of others that end."""

    async def run() -> None:
        async with ApiClient(load_connection(kubeconfig)) as api:
            await run_renewal(
                api,
                namespace=namespace,
                secrets=secrets,
                authority=authority,
                watched=watch,
                renew_before=timedelta(days=renew_days),
            )

    asyncio.run(run())
