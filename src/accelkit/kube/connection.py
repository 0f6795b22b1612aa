"""Discovery of the API server and credentials, in the same order as in the kubernetes.core modules."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from accelkit.errors import ConfigurationError
from accelkit.kube.kubeconfig import credential_files, read_kubeconfig
from accelkit.kube.options import ConnectionOptions

if TYPE_CHECKING:
    from kubernetes import client

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# Pods in the embedded cluster are processes that share the file system of this machine.
SERVICE_ACCOUNT_VARIABLE = "ACCELKIT_SERVICE_ACCOUNT"


def _read_nothing() -> None:
    return None


@dataclass(frozen=True)
class Connection:
    """An API server and credentials.

    Attributes:
        server: the URL, without a trailing slash.
        tls: the TLS context; None for plain HTTP.
        read_authorization: a function that returns the current value of the Authorization header; None if certificates
            are used.
        headers: additional headers for each request, which are used for impersonation.
        server_name: the required name in the server's certificate, if it differs from the host.
        proxy: the URL of an HTTP proxy.
        proxy_headers: headers for requests to the proxy.
        context: the name of the kubeconfig context; empty if the connection is not from a kubeconfig.
    """

    server: str
    tls: ssl.SSLContext | None
    read_authorization: Callable[[], str | None] = _read_nothing
    headers: tuple[tuple[str, str], ...] = ()
    server_name: str | None = None
    proxy: str | None = None
    proxy_headers: Mapping[str, str] = field(default_factory=dict)
    context: str = ""


def load_connection(
    options: ConnectionOptions | Path | None = None, *, environ: Mapping[str, str] = os.environ
) -> Connection:
    """Find the API server and its credentials.

    The first existing source in this order is used: the host and credentials in the options; the kubeconfig or context
    in the options; the pod's service account; KUBECONFIG; ~/.kube/config. Other options then override the values from
    this source.

    Args:
        options: the connection options, or only the path of a kubeconfig; None to read the environment.
        environ: the environment variables.

    Raises:
        ConfigurationError: no API server is configured, or the configuration cannot be used.
    """
    if not isinstance(options, ConnectionOptions):
        options = ConnectionOptions(kubeconfig=options) if options else ConnectionOptions.collect({}, environ)
    with credential_files():
        if options.authenticates:
            found = _Found()
        elif options.kubeconfig or options.context:
            found = _read_settings(*read_kubeconfig(options, environ))
        else:
            found = _read_service_account(environ) or _read_settings(*read_kubeconfig(options, environ))
        return _connect(_override(found, options), options)


@dataclass(frozen=True, kw_only=True)
class _Found:
    """The values from one source, and the source's name for error messages. A missing value is None."""

    name: str = "the given host"
    context: str = ""
    host: str = ""
    ca_cert: str | None = None
    verify: bool = True
    client_cert: str | None = None
    client_key: str | None = None
    server_name: str | None = None
    proxy: str | None = None
    read_authorization: Callable[[], str | None] = _read_nothing


def _read_settings(settings: client.Configuration, name: str, context: str) -> _Found:
    def read_authorization() -> str | None:
        # If a credential plugin runs again, the package rewrites the files.
        with credential_files():
            # Earlier releases of the package use the name in `alias`.
            return settings.get_api_key_with_prefix("BearerToken", alias="authorization")

    return _Found(
        name=name,
        context=context,
        host=settings.host,
        ca_cert=settings.ssl_ca_cert,
        verify=settings.verify_ssl,
        client_cert=settings.cert_file,
        client_key=settings.key_file,
        server_name=settings.tls_server_name,
        proxy=settings.proxy,
        read_authorization=read_authorization,
    )


def _read_service_account(environ: Mapping[str, str]) -> _Found | None:
    """Return the credentials of the pod's service account; None outside of a pod or without a service account."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    folder = Path(environ.get(SERVICE_ACCOUNT_VARIABLE) or SERVICE_ACCOUNT)
    token, authority = folder / "token", folder / "ca.crt"
    if not host or not port or not token.is_file() or not authority.is_file():
        return None
    return _Found(
        name="the pod's service account",
        host=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_cert=str(authority),
        read_authorization=_TokenFile(token).read_authorization,
    )


class _TokenFile:
    """A token file that the kubelet renews. For each request, the file is checked, and read again if it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file_state: tuple[int, int, int] | None = None
        self._value = ""

    def read_authorization(self) -> str:
        found = self._path.stat()
        state = found.st_mtime_ns, found.st_ino, found.st_size
        if state != self._file_state:
            # Store the file state from before the read, so that a write during the read is detected by the next check.
            self._value, self._file_state = f"Bearer {self._path.read_text().strip()}", state
        return self._value


def _override(found: _Found, options: ConnectionOptions) -> _Found:
    read_authorization = found.read_authorization
    if options.api_key:
        read_authorization = _always(f"Bearer {options.api_key}")
    elif options.username and options.password:
        read_authorization = _always(_encode_basic(f"{options.username}:{options.password}"))
    return replace(
        found,
        # If the host is overridden, the context does not describe this cluster.
        context="" if options.host else found.context,
        host=options.host or found.host,
        ca_cert=options.ca_cert or found.ca_cert,
        verify=found.verify if options.validate_certs is None else options.validate_certs,
        client_cert=options.client_cert or found.client_cert,
        client_key=options.client_key or found.client_key,
        proxy=options.proxy or found.proxy,
        read_authorization=read_authorization,
    )


def _connect(found: _Found, options: ConnectionOptions) -> Connection:
    server = found.host.rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise ConfigurationError(
            f"cannot use the server {server!r} of {found.name}: it is not a URL",
            next_step="write it as https://192.0.2.10:6443",
        )
    try:
        tls = _build_tls(found) if server.startswith("https:") else None
    except (OSError, ValueError) as exc:
        raise ConfigurationError(f"cannot use the certificates of {found.name}: {exc}") from exc
    return Connection(
        server,
        tls,
        found.read_authorization,
        headers=_impersonate(options),
        server_name=found.server_name or None,
        proxy=_choose_proxy(server, found.proxy, options.no_proxy),
        proxy_headers=_build_proxy_headers(options.proxy_headers or {}),
        context=found.context,
    )


def _build_tls(found: _Found) -> ssl.SSLContext:
    for file in (found.ca_cert, found.client_cert, found.client_key):
        if file and not Path(file).is_file():
            raise ConfigurationError(f"cannot use {found.name}: {file} is not a file")
    context = ssl.create_default_context(cafile=found.ca_cert or None)
    if not found.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if found.client_cert:
        # An empty password prevents OpenSSL from prompting for one.
        context.load_cert_chain(found.client_cert, found.client_key or None, password="")
    return context


def _impersonate(options: ConnectionOptions) -> tuple[tuple[str, str], ...]:
    user = [("Impersonate-User", options.impersonate_user)] if options.impersonate_user else []
    return (*user, *(("Impersonate-Group", group) for group in options.impersonate_groups or ()))


def _choose_proxy(server: str, proxy: str | None, no_proxy: str | None) -> str | None:
    if not proxy:
        return None
    if not proxy.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"cannot use the proxy {proxy!r}: it is not an HTTP proxy", next_step="use a URL with http:// or https://"
        )
    if no_proxy:
        try:
            from kubernetes.client.rest import should_bypass_proxies  # noqa: PLC0415 - see read_kubeconfig
        except ImportError as exc:
            raise ConfigurationError(
                "cannot apply no_proxy without the Python package kubernetes",
                next_step="pip install 'accelkit[kubeconfig]'",
            ) from exc
        if should_bypass_proxies(server, no_proxy):
            return None
    return proxy


def _build_proxy_headers(given: Mapping[str, str]) -> dict[str, str]:
    names = {"proxy_basic_auth": "Proxy-Authorization", "basic_auth": "Authorization", "user_agent": "User-Agent"}
    return {
        names[key]: _encode_basic(value) if key.endswith("basic_auth") else value
        for key, value in given.items()
        if value
    }


def _encode_basic(credentials: str) -> str:
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"


def _always(value: str) -> Callable[[], str]:
    return lambda: value
