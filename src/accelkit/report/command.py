"""The command `accelkit inspect`."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from urllib.parse import quote

import aiohttp
import click
import msgspec

from accelkit.cluster.client import ApiClient
from accelkit.cluster.connection import load_connection
from accelkit.errors import ConfigurationError, ServiceError
from accelkit.report.inspection import Inspection, inspect_cluster
from accelkit.report.output import output_option, print_value
from accelkit.report.table import inspection_table

_FILE = click.Path(path_type=Path, dir_okay=False)
_SECONDS = 15


@click.command("inspect", short_help="Show cards and who holds them.")
@click.argument("node", required=False)
@click.option(
    "--from-api", is_flag=True, help="Read nodes and pods from the API server instead of asking the extender."
)
@click.option(
    "--extender",
    envvar="ACCELKIT_EXTENDER",
    default="http://127.0.0.1:32766",
    show_default=True,
    help="URL of the extender.",
)
@click.option("--ca", type=_FILE, help="Authority of the extender's certificate (PEM), for https.")
@click.option("--cert", type=_FILE, help="Client certificate (PEM), for https.")
@click.option("--key", type=_FILE, help="Its private key (PEM).")
@click.option("--kubeconfig", type=_FILE, help="With --from-api; default: KUBECONFIG, else ~/.kube/config.")
@output_option
def inspect(  # noqa: PLR0917 - click passes options by name
    node: str | None,
    from_api: bool,  # noqa: FBT001 - the same
    extender: str,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Show cards, and which pods hold how much of them; of one NODE, or of all."""
    if from_api:
        inspection = asyncio.run(_from_api(kubeconfig, node))
    else:
        inspection = asyncio.run(_from_extender(extender, node, _tls(ca, cert, key)))
    print_value(inspection, output, lambda: inspection_table(inspection))


async def _from_api(kubeconfig: Path | None, node: str | None) -> Inspection:
    async with ApiClient(load_connection(kubeconfig)) as api:
        return await inspect_cluster(api, node=node)


async def _from_extender(url: str, node: str | None, tls: ssl.SSLContext | None) -> Inspection:
    path = f"{url.rstrip('/')}/inspect" + (f"/{quote(node, safe='')}" if node else "")
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(path, ssl=tls if tls is not None else True) as response,
        ):
            body = await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        raise ServiceError(
            f"the extender at {url} does not answer ({str(exc) or type(exc).__name__})",
            next_step="give its URL with --extender, or read straight from the API server with --from-api",
        ) from exc
    try:
        if response.status != 200:  # noqa: PLR2004 - HTTP's OK
            raise ServiceError(msgspec.json.decode(body, type=dict[str, str]).get("error", f"HTTP {response.status}"))
        return msgspec.json.decode(body, type=Inspection)
    except msgspec.MsgspecError as exc:
        raise ServiceError(f"{url} does not answer as an accelkit extender does: {exc}") from exc


def _tls(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if ca is None and cert is None:
        return None
    try:
        context = ssl.create_default_context(cafile=str(ca) if ca else None)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(f"the certificates cannot be used: {exc}") from exc
    return context
