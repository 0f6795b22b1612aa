"""Options for the extender's address and certificates."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from accelkit.errors import ConfigurationError
from accelkit.serving.tls import Listen, TlsFiles, make_context

_MAX_PORT = 65535


def parse_listen(
    address: str,
    *,
    plain_http: bool,
    certificate: Path | None,
    key: Path | None,
    client_ca: Path | None,
    client_names: Collection[str] = (),
) -> Listen:
    """Return the address and the certificates of the server.

    Raises:
        ConfigurationError: the address is invalid, certificates are missing, or plain HTTP is requested for a
            non-loopback address.
    """
    host, number = _address(address)
    if plain_http:
        if not ipaddress.ip_address(host).is_loopback:
            raise ConfigurationError(
                f"cannot serve plain HTTP on {host}, which is not a loopback address",
                next_step="set --tls-cert, --tls-key and --client-ca",
            )
        return Listen(host, number)
    if certificate is None or key is None or client_ca is None:
        raise ConfigurationError(
            "cannot serve TLS without certificates",
            next_step="set --tls-cert, --tls-key and --client-ca, or --plain-http on 127.0.0.1",
        )
    for path in (certificate, key, client_ca):
        if not path.is_file():
            raise ConfigurationError(f"cannot read {path}: it does not exist, or is not a file")
    if not client_names:
        raise ConfigurationError(
            "no client name is set", next_step="set --client-name to the common name or a DNS name of the clients"
        )
    files = TlsFiles(certificate, key, client_ca, frozenset(client_names))
    make_context(files)
    return Listen(host, number, files)


def parse_reads(at: Listen, port: int | None, service: str | None) -> Listen | None:
    """Return the address of the read port, with the host and server certificate of the port for the verbs.

    Raises:
        ConfigurationError: no Service is set, or the port would serve plain HTTP.
    """
    if port is None:
        return None
    if at.tls is None or not service:
        raise ConfigurationError(
            "--read-port requires TLS and a Service",
            next_step="set --service and certificates, or omit --read-port",
        )
    return Listen(at.host, port, replace(at.tls, client_ca=None))


def _address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    wrong = ConfigurationError(f"{address!r} is not a valid listen address", next_step="use the form 0.0.0.0:32766")
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError as exc:
        raise wrong from exc
    if not 0 < number <= _MAX_PORT:
        raise wrong
    return host, number
