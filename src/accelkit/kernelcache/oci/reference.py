"""Strict parser for image names, which consist of registry, repository, tag and digest.

The grammar is defined by the `distribution` project, with Docker Hub's defaults. Only SHA-256 digests are accepted,
because signatures contain SHA-256 digests and all registries compute them.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass, replace

from accelkit.errors import CacheError

DOCKER_HUB = "docker.io"
DEFAULT_TAG = "latest"
# The maximum length of a name without tag and digest, as in `distribution`.
MAX_NAME_LENGTH = 255
_MAX_TAG_LENGTH = 128
_MAX_DIGEST_LENGTH = len("sha256:") + 64
_MAX_PORT = 65535

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[(?P<v6>[0-9a-fA-F:.]+)\])(?::(?P<port>[0-9]{{1,5}}))?")
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Reference:
    """The name of an image.

    Attributes:
        registry: the host, with the port if it is specified; `docker.io` for Docker Hub.
        repository: the path. For official images on Docker Hub, it includes `library/`.
        tag: the tag; None if only a digest is specified.
        digest: the digest, `sha256:…`, or None. If a tag is also specified, the digest selects the image and the tag is
            ignored.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"

    @property
    def name(self) -> str:
        """The registry and the repository, without tag and digest."""
        return f"{self.registry}/{self.repository}"

    @property
    def version(self) -> str:
        """The digest, or the tag if the digest is not set, for requests to a registry."""
        return self.digest or self.tag or DEFAULT_TAG

    def require_digest(self) -> str:
        """Return the digest.

        Raises:
            CacheError: the reference has no digest.
        """
        if self.digest is None:
            raise CacheError(f"{self} has no digest", next_step="append @sha256:…")
        return self.digest

    def with_digest(self, digest: str) -> Reference:
        """Return a reference to the same repository, pinned to a digest."""
        return replace(self, digest=digest)

    def with_tag(self, tag: str) -> Reference:
        """Return a reference to a tag of the same repository."""
        return Reference(self.registry, self.repository, tag)


def parse_reference(text: str) -> Reference:
    """Parse an image reference according to the rules of container engines, but reject ambiguous names.

    Raises:
        CacheError: the text is not a reference; the message specifies the invalid part.
    """
    # The length is checked first, so that all later searches and messages are small.
    if len(text) > MAX_NAME_LENGTH + _MAX_TAG_LENGTH + _MAX_DIGEST_LENGTH + len(":@"):
        raise _refuse(text, "it is too long")
    rest, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise _refuse(text, f"the digest {digest!r} is not sha256: and 64 hexadecimal digits in lower case")
    head, slash, tail = rest.partition("/")
    # A first component without a dot or colon is a Docker Hub user name, except `localhost`. Container engines treat a
    # first component with capital letters as a host, but host names are case-insensitive, so the name would be
    # ambiguous.
    if slash and ("." in head or ":" in head or head.lower() == "localhost"):
        registry, path = head, tail
    else:
        registry, path = DOCKER_HUB, rest
    repository, colon, tag = path.partition(":")
    if not _is_host(registry):
        raise _refuse(text, f"{registry!r} is not a host with an optional port")
    if colon and not _TAG.fullmatch(tag):
        raise _refuse(text, f"{tag!r} is not a tag")
    if not _REPOSITORY.fullmatch(repository):
        raise _refuse(text, f"{repository!r} is not a repository in lower case")
    registry = registry.lower()
    registry = DOCKER_HUB if registry == "index.docker.io" else registry
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    if len(registry) + 1 + len(repository) > MAX_NAME_LENGTH:
        raise _refuse(text, f"its name is longer than {MAX_NAME_LENGTH} characters")
    if not tag and not digest:
        tag = DEFAULT_TAG
    return Reference(registry, repository, tag or None, digest or None)


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    if found is None or not 0 < int(found["port"] or 1) <= _MAX_PORT:
        return False
    try:
        ipaddress.IPv6Address(found["v6"] or "::")
    except ValueError:
        return False
    return True


def is_digest(text: str) -> bool:
    """Return whether a text consists of `sha256:` and 64 lower-case hexadecimal digits."""
    return _DIGEST.fullmatch(text) is not None


def compute_digest(content: bytes) -> str:
    """Return the digest of the content in the form `sha256:…`."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _refuse(text: str, cause: str) -> CacheError:
    shortened = text if len(text) <= MAX_NAME_LENGTH else text[:MAX_NAME_LENGTH] + "…"
    return CacheError(
        f"{shortened!r} is not a valid image reference: {cause}",
        next_step="write it as registry/repository:tag or registry/repository@sha256:…",
    )
