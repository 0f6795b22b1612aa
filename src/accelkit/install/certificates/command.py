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


@click.command(short_help="Renew serving certificates before they expire.")
@click.option("--namespace", default="accelkit", show_default=True, help="Namespace of the Secrets.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    default=["accelkit-extender-tls"],
    show_default=True,
    help="Secret with a certificate to renew (repeatable).",
)
@click.option("--authority", type=_FOLDER, required=True, help="Folder with tls.crt and tls.key of the authority.")
@click.option(
    "--watch",
    type=_FOLDER,
    required=True,
    help="Folder with other certificates, NAME.crt for Secret NAME. An Event warns before they expire.",
)
@click.option(
    "--renew-days",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Number of days before expiry at which a certificate is renewed, or a warning is issued.",
)
@kubeconfig_option
def renew_certificates(  # noqa: PLR0917 - click passes options by name
    namespace: str, secrets: tuple[str, ...], authority: Path, watch: Path, renew_days: int, kubeconfig: Path | None
) -> None:
    """Renew the serving certificates of accelkit's authority, and warn before other certificates expire."""

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
