"""Request destinations: registry-provided URLs, origins that may receive a login, plain HTTP, and proxies."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Set as AbstractSet
from urllib.parse import urljoin

from yarl import URL

from accelkit.errors import RegistryError

# A URL without spaces and control characters, which can be used unchanged in the request line.
_PRINTABLE = re.compile(r"[!-~]+")
_MAX_LABEL = 63
_HTTP_PORT = 80


def read_url(text: str, *, base: str, registry: str) -> URL:
    """Parse a URL from a registry without changing its quoting, because signed links and upload sessions require this.

    Args:
        text: an absolute URL, or a URL relative to `base`.
        base: the URL of the request.
        registry: the registry that returned the URL, for the error message.

    Raises:
        RegistryError: the text is not an HTTP URL, or contains a user name or password.
    """
    try:
        joined = urljoin(base, text)
        url = URL(joined, encoded=True).with_fragment(None)
        host = url.raw_host or ""
        usable = (
            _PRINTABLE.fullmatch(joined) is not None
            and url.scheme in {"http", "https"}
            and bool(url.port)
            and url.raw_user is None
            and url.raw_password is None
            and all(0 < len(label) <= _MAX_LABEL for label in host.split("."))
        )
    except ValueError:
        usable = False
    if not text or not usable:
        raise RegistryError(f"{registry} points to {text[:200]!r}, which is not a valid HTTP URL")
    return url


def have_same_origin(one: URL, other: URL) -> bool:
    """Return whether two URLs have the same scheme, host and port, so they may receive the same login."""
    return _origin(one) == _origin(other)


def require_safe(url: URL, *, base: str, plain_http: AbstractSet[str], registry: str) -> None:
    """Require HTTPS, except for hosts that are allowed without TLS.

    Args:
        url: the URL of the next request.
        base: the URL of the registry itself, which uses plain HTTP only if this is allowed.
        plain_http: the hosts that may be used without TLS, each as `host:port`; `host` allows only port 80.
        registry: the registry that returned the URL, for the error message.

    Raises:
        RegistryError: the URL uses plain HTTP, which is not allowed for this host.
    """
    _, host, port = _origin(url)
    names = {f"{host}:{port}"} | ({host} if port == _HTTP_PORT else set())
    if url.scheme == "https" or have_same_origin(url, URL(base)) or not names.isdisjoint(plain_http):
        return
    raise RegistryError(
        f"{registry} points to http://{host}:{port}, which is not HTTPS",
        next_step="if you trust that host, allow plain HTTP for it by name",
    )


def find_proxy(url: URL) -> str | None:
    """Return the proxy for a URL from the environment (HTTPS_PROXY, NO_PROXY and so on); None if no proxy is set."""
    _, host, port = _origin(url)
    if urllib.request.proxy_bypass(f"{host}:{port}"):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _origin(url: URL) -> tuple[str, str, int]:
    host = (url.raw_host or "").lower()
    return url.scheme, f"[{host}]" if ":" in host else host, url.port or 0
