"""Settings of the registry client: mirrors, plain HTTP, certificates, timeouts and retries."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.reference import DOCKER_HUB, Reference
from accelkit.kernelcache.registry.credentials import RegistryCredentials, normalize_registry

# The host of the Docker Hub registry differs from its name in references.
_DOCKER_HUB_HOST = "registry-1.docker.io"


@dataclass(frozen=True)
class RegistryEndpoint:
    """A server for a repository: the registry itself or a mirror.

    Attributes:
        registry: the host whose credentials are used.
        base: the URL without `/v2`.
        repository: the name of the repository on this server.
        attempts: the maximum number of attempts for one request.
        connects: the maximum number of attempts if no connection can be established.
    """

    registry: str
    base: str
    repository: str
    attempts: int = 1
    connects: int = 1

    def build_url(self, path: str) -> str:
        """Return the URL of a path in the repository, such as `manifests/latest`."""
        return f"{self.base}/v2/{self.repository}/{path}"


@dataclass(frozen=True)
class RegistrySettings:
    """Settings of one client.

    Attributes:
        credentials: the logins, by registry.
        ca_file: a PEM file with certificate authorities that are trusted in addition to those of the operating system.
        plain_http: the registries that are used without TLS (`host` or `host:port`, as in references).
        mirrors: the mirrors for each registry, which are queried before the registry. A mirror is a host with an
            optional path prefix (`host:port/prefix`).
        timeout_seconds: the maximum time to wait for a response or for more data, in seconds.
        connect_seconds: the maximum time to wait for a connection, in seconds. The name lookup may take up to the same
            time in addition.
        attempts: the maximum number of attempts for one request to the registry. Requests to a mirror are attempted
            only once, because other endpoints are queried afterwards.
    """

    credentials: RegistryCredentials = field(default_factory=RegistryCredentials)
    ca_file: Path | None = None
    plain_http: frozenset[str] = frozenset()
    mirrors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    timeout_seconds: float = 30.0
    connect_seconds: float = 5.0
    attempts: int = 5

    @classmethod
    def of_options(
        cls,
        *,
        plain_http: Iterable[str] = (),
        ca_file: Path | None = None,
        mirrors: Iterable[str] = (),
        configs: Iterable[Path] = (),
    ) -> RegistrySettings:
        """Return the settings from the values of command options.

        Args:
            plain_http: the registries that are used without TLS.
            ca_file: a PEM file.
            mirrors: mirrors as `registry=host[/prefix]`, in the order in which they are queried.
            configs: files with logins; if empty, the user's Docker logins are used.

        Raises:
            ConfigurationError: a mirror has an invalid format, or a file cannot be read.
        """
        by_registry: dict[str, tuple[str, ...]] = {}
        for text in mirrors:
            registry, equals, mirror = text.partition("=")
            if not equals or not registry or not mirror or "://" in mirror:
                raise ConfigurationError(
                    f"{text!r} is not a valid mirror", next_step="write it as quay.io=mirror.example:5000/quay"
                )
            name = normalize_registry(registry)
            by_registry[name] = (*by_registry.get(name, ()), mirror)
        paths = tuple(configs)
        return cls(
            credentials=RegistryCredentials.from_files(paths) if paths else RegistryCredentials.of_user(),
            ca_file=ca_file,
            plain_http=frozenset(map(normalize_registry, plain_http)),
            mirrors=by_registry,
        )

    def list_endpoints(self, reference: Reference) -> tuple[RegistryEndpoint, ...]:
        """Return the endpoints of a repository in the order of queries: the mirrors, then the registry itself."""
        mirrors = []
        for mirror in self.mirrors.get(reference.registry, ()):
            host, _, prefix = mirror.strip("/").partition("/")
            path = f"{prefix}/{reference.repository}" if prefix else reference.repository
            mirrors.append(self._endpoint(host, path, attempts=1))
        return (*mirrors, self.find_origin(reference))

    def find_origin(self, reference: Reference) -> RegistryEndpoint:
        """Return the endpoint of the registry in the reference, which receives all writes."""
        return self._endpoint(reference.registry, reference.repository, attempts=self.attempts)

    def _endpoint(self, registry: str, repository: str, *, attempts: int) -> RegistryEndpoint:
        host = _DOCKER_HUB_HOST if registry == DOCKER_HUB else registry
        scheme = "http" if registry in self.plain_http else "https"
        return RegistryEndpoint(registry, f"{scheme}://{host}", repository, attempts, attempts)

    def build_tls_context(self) -> ssl.SSLContext:
        """Return the TLS context for connections to registries.

        Raises:
            ConfigurationError: the file with the certificate authorities cannot be used.
        """
        context = ssl.create_default_context()
        if self.ca_file is not None:
            try:
                context.load_verify_locations(cafile=str(self.ca_file))
            except (OSError, ssl.SSLError) as exc:
                raise ConfigurationError(
                    f"cannot read the certificate authorities of registries in {self.ca_file}: {exc}",
                    next_step="use a PEM file with the certificates of the authorities",
                ) from exc
        return context
