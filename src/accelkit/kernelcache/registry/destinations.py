"""Destinations of requests: URLs that registries name, whom a login is for, who may do without TLS, which proxy."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Set as AbstractSet
from urllib.parse import urljoin

from yarl import URL

from accelkit.errors import RegistryError

# No blank, no control character: such a URL stands in a request's first line as it is.
_WRITTEN = re.compile(r"[!-~]+")
_MAX_LABEL = 63
_HTTP_PORT = 80


def read_url(text: str, *, base: str, said_by: str) -> URL:
    """Read the URL that a registry names, with its quoting as it stands: signed links and upload sessions need it.

    Args:
        text: absolute, or relative to `base`.
        base: the URL that was asked.
        said_by: who named it, for the error.

    Raises:
        RegistryError: it is no URL of HTTP, or carries a user's name and password.
    """
    try:
        joined = urljoin(base, text)
        url = URL(joined, encoded=True).with_fragment(None)
        host = url.raw_host or ""
        usable = (
            _WRITTEN.fullmatch(joined) is not None
            and url.scheme in {"http", "https"}
            and bool(url.port)
            and url.raw_user is None
            and url.raw_password is None
            and all(0 < len(label) <= _MAX_LABEL for label in host.split("."))
        )
    except ValueError:
        usable = False
    if not text or not usable:
        raise RegistryError(f"{said_by} sends us to {text[:200]!r}, which is no place to go")
    return url


def have_same_origin(one: URL, other: URL) -> bool:
    """Whether two URLs have scheme, host and port in common, so that what one may know the other may."""
    return _origin(one) == _origin(other)


def require_safe(url: URL, *, base: str, plain_http: AbstractSet[str], said_by: str) -> None:
    """Insist on HTTPS.

    Args:
        url: where the request is to go.
        base: the registry itself, which is plain only where that is allowed.
        plain_http: `host:port` that may be spoken to without TLS; `host` is port 80 of it alone.
        said_by: who named the URL, for the error.

    Raises:
        RegistryError: it is plain HTTP to a host that is not allowed it.
    """
    _, host, port = _origin(url)
    names = {f"{host}:{port}"} | ({host} if port == _HTTP_PORT else set())
    if url.scheme == "https" or have_same_origin(url, URL(base)) or not names.isdisjoint(plain_http):
        return
    raise RegistryError(
        f"{said_by} sends us to http://{host}:{port}, which is not HTTPS",
        next_step="allow that host for plain HTTP by name, if it is to be trusted",
    )


def find_proxy(url: URL) -> str | None:
    """Return the proxy that the environment names for a URL (HTTPS_PROXY, NO_PROXY…)."""
    _, host, port = _origin(url)
    if urllib.request.proxy_bypass(f"{host}:{port}"):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _origin(url: URL) -> tuple[str, str, int]:
    host = (url.raw_host or "").lower()
    return url.scheme, f"[{host}]" if ":" in host else host, url.port or 0
