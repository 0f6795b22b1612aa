"""Connection options for the API server. They are the options of the kubernetes.core modules and their variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from accelkit.errors import ConfigurationError

PREFIX: Final = "K8S_AUTH_"
# Option aliases in the kubernetes.core modules. Their environment variables are also read.
ALIASES: Final[Mapping[str, str]] = {
    "validate_certs": "verify_ssl",
    "ca_cert": "ssl_ca_cert",
    "client_cert": "cert_file",
    "client_key": "key_file",
}
_PROXY_HEADERS: Final = ("proxy_basic_auth", "basic_auth", "user_agent")
_NO: Final = frozenset({"0", "false", "no"})


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """Options for the connection to the API server. An option that is None or empty is not set.

    The options have the same names and meanings as in the kubernetes.core modules. Therefore, the same variables select
    the same cluster and user in accelkit and in these modules.

    Attributes:
        kubeconfig: a path, several paths separated by `os.pathsep`, or the content of a kubeconfig.
        context: the context in the kubeconfig; the current context by default.
        host: the URL of the API server.
        api_key: a bearer token.
        username: the user name for HTTP basic authentication.
        password: the password for HTTP basic authentication.
        validate_certs: whether the server's certificate is verified; True by default.
        ca_cert: the path of the CA certificate for the server.
        client_cert: the path of a client certificate.
        client_key: the path of the client certificate's key.
        proxy: the URL of an HTTP proxy.
        no_proxy: a comma-separated list of hosts, domains and networks for which the proxy is not used.
        proxy_headers: a mapping with `proxy_basic_auth` and `basic_auth` as `user:password`, and `user_agent`.
        persist_config: whether renewed tokens are written to the kubeconfig.
        impersonate_user: the user to impersonate.
        impersonate_groups: the groups to impersonate.
    """

    kubeconfig: str | Path | Mapping[str, Any] | None = None
    context: str | None = None
    host: str | None = None
    api_key: str | None = None
    username: str | None = None
    password: str | None = None
    validate_certs: bool | None = None
    ca_cert: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    proxy: str | None = None
    no_proxy: str | None = None
    proxy_headers: Mapping[str, str] | None = None
    persist_config: bool | None = None
    impersonate_user: str | None = None
    impersonate_groups: tuple[str, ...] | None = None

    @classmethod
    def collect(cls, given: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Self:
        """Return the options in `given`. Unset options are read from environment variables such as `K8S_AUTH_HOST`.

        Raises:
            ConfigurationError: the kubeconfig is neither a path nor a mapping.
        """
        names = [field.name for field in fields(cls)]
        found = {name: given[name] if given.get(name) is not None else _read(name, environ) for name in names}
        if not isinstance(found["kubeconfig"], str | Path | Mapping | None):
            raise ConfigurationError(
                f"cannot use a kubeconfig of type {type(found['kubeconfig']).__name__}",
                next_step="specify its path, or its content as a mapping",
            )
        if found["impersonate_groups"] is not None:
            found["impersonate_groups"] = tuple(found["impersonate_groups"])
        return cls(**found)

    @property
    def authenticates(self) -> bool:
        """Whether the host and credentials are set, so that no kubeconfig or service account is used."""
        credentials = self.api_key, self.username and self.password, self.client_cert and self.client_key
        return bool(self.host and any(credentials))


def _read(name: str, environ: Mapping[str, str]) -> Any:
    if name == "proxy_headers":
        values = {each: environ.get(f"{PREFIX}PROXY_HEADERS_{each.upper()}") for each in _PROXY_HEADERS}
        return {each: value for each, value in values.items() if value} or None
    value = environ.get(PREFIX + name.upper()) or environ.get(PREFIX + ALIASES.get(name, name).upper())
    if not value:
        return None
    if name in ("validate_certs", "persist_config"):
        return value.lower() not in _NO
    return [each for each in value.split(",") if each] if name == "impersonate_groups" else value
