"""Settings of the client: mirrors, plain HTTP, certificates, timeouts, retries."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.reference import DOCKER_HUB, Reference
from accelkit.kernelcache.registry.credentials import RegistryCredentials, normalize_registry

# Docker Hub's name is not the name of its registry.
_DOCKER_HUB_HOST = "registry-1.docker.io"


@dataclass(frozen=True)
class RegistryEndpoint:
    """One place where a repository is served.

    Attributes:
        registry: the host whose credentials are used.
        base: URL up to and without `/v2`.
        repository: the repository's name there.
        attempts: how often one request is tried before it has failed.
        connects: how often it is where no connection comes about.
    """

    registry: str
    base: str
    repository: str
    attempts: int = 1
    connects: int = 1

    def build_url(self, path: str) -> str:
        """Return the URL of something in the repository, such as `manifests/latest`."""
        return f"{self.base}/v2/{self.repository}/{path}"


@dataclass(frozen=True)
class RegistrySettings:
    """Settings of one client.

    Attributes:
        credentials: who we are, per registry.
        ca_file: PEM file of authorities that are trusted beside the system's.
        plain_http: registries (`host` or `host:port`, as references name them) that may be spoken to without TLS;
            nobody else ever is.
        mirrors: per registry, hosts that are asked before it, each with an optional path prefix (`host:port/prefix`).
        timeout_seconds: the longest silence, and the longest wait for an answer, in seconds.
        connect_seconds: the longest wait for a connection, in seconds; its name may take as long once more.
        attempts: how often one request is tried before it has failed; a mirror is asked once, as others come after it.
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
        """Make settings of what people write.

        Args:
            plain_http: registries.
            ca_file: PEM.
            mirrors: `registry=host[/prefix]`, in the order of asking.
            configs: files of log-ins; without one, those of Docker's user.

        Raises:
            ConfigurationError: a mirror is not written so, or a file cannot be read.
        """
        by_registry: dict[str, tuple[str, ...]] = {}
        for text in mirrors:
            registry, equals, mirror = text.partition("=")
            if not equals or not registry or not mirror or "://" in mirror:
                raise ConfigurationError(
                    f"{text!r} is no mirror", next_step="write it as quay.io=mirror.example:5000/quay"
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
        """Return where a repository can be read, in the order of asking: mirrors, then the registry itself."""
        mirrors = []
        for mirror in self.mirrors.get(reference.registry, ()):
            host, _, prefix = mirror.strip("/").partition("/")
            path = f"{prefix}/{reference.repository}" if prefix else reference.repository
            mirrors.append(self._endpoint(host, path, attempts=1))
        return (*mirrors, self.find_origin(reference))

    def find_origin(self, reference: Reference) -> RegistryEndpoint:
        """Return the registry that the reference names; only it is written to."""
        return self._endpoint(reference.registry, reference.repository, attempts=self.attempts)

    def _endpoint(self, registry: str, repository: str, *, attempts: int) -> RegistryEndpoint:
        host = _DOCKER_HUB_HOST if registry == DOCKER_HUB else registry
        scheme = "http" if registry in self.plain_http else "https"
        return RegistryEndpoint(registry, f"{scheme}://{host}", repository, attempts, attempts)

    def build_tls_context(self) -> ssl.SSLContext:
        """Return the context for registries with TLS.

        Raises:
            ConfigurationError: the file of authorities cannot be used.
        """
        context = ssl.create_default_context()
        if self.ca_file is not None:
            try:
                context.load_verify_locations(cafile=str(self.ca_file))
            except (OSError, ssl.SSLError) as exc:
                raise ConfigurationError(
                    f"the registry's authorities in {self.ca_file} cannot be read: {exc}",
                    next_step="give a PEM file with the certificates of the authorities",
                ) from exc
        return context
