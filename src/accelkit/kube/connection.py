"""Finds the API server and the credentials for it.

Inside a pod the service account's files are used; elsewhere a kubeconfig. Static credentials (certificates, tokens,
token files) are read here; a kubeconfig that runs a credential plugin is handed to the `kubernetes` package, which
keeps that protocol.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from accelkit.errors import ConfigurationError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Connection:
    """An API server and credentials.

    Attributes:
        server: URL without a trailing slash.
        tls: None for plain HTTP.
        token: a bearer token; None where certificates or `token_file` are used.
        token_file: read again for every request, because the kubelet rotates it.
    """

    server: str
    tls: ssl.SSLContext | None
    token: str | None = None
    token_file: Path | None = None

    def read_bearer(self) -> str | None:
        """Return the bearer token valid now, None where certificates are used."""
        if self.token_file is not None:
            return self.token_file.read_text().strip()
        return self.token


def load_connection(kubeconfig: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Connection:
    """Find the API server: the given kubeconfig, KUBECONFIG, the pod's service account, then ~/.kube/config.

    Raises:
        ConfigurationError: nothing is configured, or it cannot be read.
    """
    if kubeconfig is None and environ.get("KUBECONFIG"):
        kubeconfig = Path(environ["KUBECONFIG"].split(os.pathsep)[0])
    if kubeconfig is not None:
        return _read_kubeconfig(kubeconfig)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return _read_service_account(environ)
    default = Path(environ.get("HOME", "/")) / ".kube" / "config"
    if default.is_file():
        return _read_kubeconfig(default)
    raise ConfigurationError(
        "no Kubernetes cluster is configured",
        next_step="set KUBECONFIG or pass --kubeconfig with the path of a kubeconfig",
    )


def _read_service_account(environ: Mapping[str, str]) -> Connection:
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    authority = f"[{host}]" if ":" in host else host
    try:
        context = ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt"))
    except OSError as exc:
        raise ConfigurationError(
            f"the pod's service account in {SERVICE_ACCOUNT} cannot be used: {exc}",
            next_step="let the pod mount its service account's token, or set KUBECONFIG",
        ) from exc
    return Connection(f"https://{authority}:{port}", context, token_file=SERVICE_ACCOUNT / "token")


def _read_kubeconfig(path: Path) -> Connection:
    try:
        document = YAML(typ="safe", pure=True).load(path.read_text())
    except (OSError, UnicodeDecodeError, YAMLError) as exc:
        raise ConfigurationError(f"kubeconfig {path} cannot be read: {exc}") from exc
    if not isinstance(document, dict):
        raise ConfigurationError(f"kubeconfig {path} is not a mapping")
    context = _find_entry(document, "contexts", "context", document.get("current-context"), path)
    cluster = _find_entry(document, "clusters", "cluster", context.get("cluster"), path)
    user = _find_entry(document, "users", "user", context.get("user"), path) if context.get("user") else {}
    if "exec" in user or "auth-provider" in user:
        return _ask_plugin(path)
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise ConfigurationError(f"kubeconfig {path} gives the server {server!r}, which is no URL")
    try:
        tls = _build_tls(cluster, user, path) if server.startswith("https:") else None
    except (OSError, ValueError) as exc:
        raise ConfigurationError(f"the certificates of kubeconfig {path} cannot be used: {exc}") from exc
    token_file = user.get("tokenFile")
    return Connection(
        server,
        tls,
        token=str(user["token"]) if user.get("token") else None,
        token_file=path.parent / token_file if token_file else None,
    )


def _find_entry(document: Mapping[str, Any], listing: str, key: str, name: object, path: Path) -> Mapping[str, Any]:
    entries = document.get(listing)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            found = entry.get(key) or {}
            if isinstance(found, dict):
                return found
            raise ConfigurationError(f"kubeconfig {path}: the {key} {name!r} under {listing} is not a mapping")
    raise ConfigurationError(f"kubeconfig {path} has no entry named {name!r} under {listing}")


def _build_tls(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext:
    # As for kubectl, what stands in the file itself wins over a file that it names.
    if authority := cluster.get("certificate-authority-data"):
        context = ssl.create_default_context(cadata=_decode(authority).decode())
    else:
        context = ssl.create_default_context(cafile=_find_file(cluster, "certificate-authority", path))
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := user.get("client-certificate-data"):
        key = user.get("client-key-data")
        if not key:
            raise ConfigurationError(f"kubeconfig {path} has client-certificate-data without client-key-data")
        _load_inline(context, _decode(key) + b"\n" + _decode(certificate))
    elif file := _find_file(user, "client-certificate", path):
        context.load_cert_chain(file, _find_file(user, "client-key", path))
    return context


def _decode(text: object) -> bytes:
    # Garbage would decode to nothing, and without an authority of its own a context trusts the system's.
    return base64.b64decode("".join(str(text).split()), validate=True)


def _load_inline(context: ssl.SSLContext, chain: bytes) -> None:
    # The ssl module reads client certificates from files only; an anonymous memory file never touches a disk.
    descriptor = os.memfd_create("client-certificate")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _find_file(entry: Mapping[str, Any], key: str, path: Path) -> str | None:
    if not entry.get(key):
        return None
    file = path.parent / str(entry[key])
    if not file.is_file():
        raise ConfigurationError(f"kubeconfig {path} names the {key} {file}, which is not a file")
    return str(file)


def _ask_plugin(path: Path) -> Connection:
    try:
        from kubernetes import client, config  # noqa: PLC0415 - half a second and 40 MB that services never need
    except ImportError as exc:
        raise ConfigurationError(
            f"kubeconfig {path} gets its credentials from a plugin", next_step="pip install kubernetes"
        ) from exc
    settings = client.Configuration()
    config.load_kube_config(str(path), client_configuration=settings)  # type: ignore[no-untyped-call]
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    bearer = str(settings.api_key.get("authorization", "")).removeprefix("Bearer ")
    return Connection(str(settings.host).rstrip("/"), context, token=bearer or None)
