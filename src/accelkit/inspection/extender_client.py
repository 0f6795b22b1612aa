"""Asks the extender what its ledger holds."""

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
# A simulation takes its time, so that kube-scheduler need not.
_QUESTION_SECONDS = 60
SHOW_FREE = "`accelkit inspect --from-api` shows what is free"


EXTENDER_SERVICE: Final = "accelkit-extender"


def extender_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add what it takes to reach the extender; `--extender` itself is each command's own."""
    for option in (
        click.option(
            "--service",
            default=EXTENDER_SERVICE,
            show_default=True,
            help="Without --extender: name of its Service, to which the API server proxies.",
        ),
        click.option("--server-name", help="The name in the extender's certificate, where the URL has another one."),
        click.option("--key", type=FILE, help="Its private key (PEM)."),
        click.option("--cert", type=FILE, help="Client certificate (PEM), for https."),
        click.option("--ca", type=FILE, help="Authority of the extender's certificate (PEM), for https."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class Address:
    """Where an extender answers; `server_name` is the name in its certificate, None for the URL's."""

    url: str
    tls: ssl.SSLContext | None = None
    server_name: str | None = None


async def ask_extender(at: Address, node: str | None) -> Inspection:
    """Return what the ledger of an extender holds, of one node or of all.

    Raises:
        ServiceError: it does not answer, or not as an extender does.
    """
    path = "/inspect" + (f"/{quote(node, safe='')}" if node else "")
    return await _request(at, "GET", path, Inspection, instead="read straight from the API server with --from-api")


async def ask_what_if(at: Address, question: SimulationQuestion) -> Simulation:
    """Return what an extender would do with a pod.

    Raises:
        ServiceError: it does not answer, or not as an extender does.
    """
    return await _request(at, "POST", "/simulate", Simulation, question, instead=SHOW_FREE)


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
            f"the extender at {at.url} does not answer ({str(exc) or type(exc).__name__})",
            next_step=f"give its URL with --extender, or {instead}",
        ) from exc
    try:
        if response.status != 200:  # noqa: PLR2004 - HTTP's OK
            refusal = msgspec.json.decode(answered, type=dict[str, str])
            raise ServiceError(refusal.get("error", f"HTTP {response.status}"))
        return msgspec.json.decode(answered, type=answer)
    except msgspec.MsgspecError as exc:
        raise ServiceError(f"{at.url} does not answer as an accelkit extender does: {exc}") from exc


def read_address(
    url: str | None, *, ca: Path | None, cert: Path | None, key: Path | None, server_name: str | None
) -> Address | None:
    """Return where the extender that was named answers; None where none was named.

    Raises:
        ConfigurationError: the certificates cannot be used, or are given for no extender.
    """
    if url:
        return Address(url, load_tls(ca, cert, key), server_name)
    if any((ca, cert, key, server_name)):
        raise ConfigurationError(
            "certificates are given for no extender", next_step="name it with --extender, or leave them out"
        )
    return None


def is_loopback(url: str) -> bool:
    """Return whether a URL names an address that leads to this machine alone."""
    try:
        return ipaddress.ip_address(urlsplit(url).hostname or "").is_loopback
    except ValueError:
        return False


def load_tls(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return what the given files make of a connection; None where none are given.

    Raises:
        ConfigurationError: they cannot be used.
    """
    if ca is None and cert is None:
        return None
    try:
        context = ssl.create_default_context(cafile=str(ca) if ca else None)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(f"the certificates cannot be used: {exc}") from exc
    return context
