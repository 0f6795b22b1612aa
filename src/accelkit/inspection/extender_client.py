"""Client that requests the ledger data and simulations from the extender."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
import click
import msgspec

from accelkit.command_options import FILE
from accelkit.errors import ConfigurationError, ServiceError
from accelkit.inspection.inspection import Inspection
from accelkit.inspection.simulation import Simulation, SimulationQuestion

_Answer = TypeVar("_Answer")

_SECONDS = 15
# A long timeout, because the extender processes simulations at low priority, so that they do not delay kube-scheduler.
_QUESTION_SECONDS = 60
INSPECT_API_HINT = "use `accelkit inspect --from-api` to list free cards"


EXTENDER_SERVICE: Final = "accelkit-extender"


def extender_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the extender connection options, except `--extender`, to a command."""
    for option in (
        click.option(
            "--service",
            default=EXTENDER_SERVICE,
            show_default=True,
            help="Name of the extender's Service, to which the API server proxies requests; ignored with --extender.",
        ),
        click.option(
            "--server-name", help="Name in the extender's certificate, if it differs from the host in the URL."
        ),
        click.option("--key", type=FILE, help="Private key of the client certificate (PEM)."),
        click.option("--cert", type=FILE, help="Client certificate (PEM) for HTTPS."),
        click.option("--ca", type=FILE, help="CA of the extender's certificate (PEM) for HTTPS."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class Address:
    """The address of an extender. `server_name` is the name in its certificate; None for the host name in the URL."""

    url: str
    tls: ssl.SSLContext | None = None
    server_name: str | None = None


async def query_extender(at: Address, node: str | None) -> Inspection:
    """Return an extender's ledger data for one node or for all nodes.

    Raises:
        ServiceError: the extender does not respond, or its response is invalid.
    """
    path = "/inspect" + (f"/{quote(node, safe='')}" if node else "")
    return await _request(at, "GET", path, Inspection, instead="read from the API server with --from-api")


async def request_simulation(at: Address, question: SimulationQuestion) -> Simulation:
    """Return an extender's simulation for a pod.

    Raises:
        ServiceError: the extender does not respond, or its response is invalid.
    """
    return await _request(at, "POST", "/simulate", Simulation, question, instead=INSPECT_API_HINT)


async def _request(
    at: Address, method: str, path: str, answer: type[_Answer], body: object = None, *, instead: str
) -> _Answer:
    tls: ssl.SSLContext | bool = at.tls or True
    timeout = aiohttp.ClientTimeout(total=_SECONDS if body is None else _QUESTION_SECONDS)
    data = None if body is None else msgspec.json.encode(body)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(
                method, f"{at.url.rstrip('/')}{path}", data=data, ssl=tls, server_hostname=at.server_name
            ) as response,
        ):
            answered = await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        raise ServiceError(
            f"cannot reach the extender at {at.url}: {str(exc) or type(exc).__name__}",
            next_step=f"set its URL with --extender, or {instead}",
        ) from exc
    try:
        if response.status != 200:  # noqa: PLR2004 - HTTP's OK
            refusal = msgspec.json.decode(answered, type=dict[str, str])
            raise ServiceError(refusal.get("error", f"HTTP {response.status}"))
        return msgspec.json.decode(answered, type=answer)
    except msgspec.MsgspecError as exc:
        raise ServiceError(
            f"cannot decode the response from {at.url}: it is not from an accelkit extender: {exc}"
        ) from exc


def read_address(
    url: str | None, *, ca: Path | None, cert: Path | None, key: Path | None, server_name: str | None
) -> Address | None:
    """Return the extender's address from the options; None if the URL is not set.

    Raises:
        ConfigurationError: the certificates cannot be used, or are set without an extender URL.
    """
    if url:
        return Address(url, load_tls(ca, cert, key), server_name)
    if any((ca, cert, key, server_name)):
        raise ConfigurationError(
            "cannot use certificates without an extender", next_step="set --extender, or omit the certificates"
        )
    return None


def is_loopback(url: str) -> bool:
    """Return whether the host in a URL is a loopback address."""
    try:
        return ipaddress.ip_address(urlsplit(url).hostname or "").is_loopback
    except ValueError:
        return False


def load_tls(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context for the given files; None if no files are given.

    Raises:
        ConfigurationError: the files cannot be used.
    """
    if ca is None and cert is None:
        return None
    try:
        context = ssl.create_default_context(cafile=str(ca) if ca else None)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(
            f"cannot use the certificates: {exc}", next_step="check --ca, --cert and --key"
        ) from exc
    return context
