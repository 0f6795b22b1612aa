"""What to put into `Authorization`: the challenge of a registry, and the tokens that answer it."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
import msgspec

from accelkit.errors import RegistryError
from accelkit.kernelcache.reference import Reference
from accelkit.kernelcache.registry.credentials import Login
from accelkit.kernelcache.registry.settings import Endpoint, RegistrySettings

_MAX_TOKEN_BYTES = 256 << 10
# The specification's default life of a token, and how long before its end it is not used any more.
_DEFAULT_SECONDS = 60
_MARGIN_SECONDS = 10
_PARAMETER = re.compile(r'([a-zA-Z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


@dataclass(frozen=True)
class Challenge:
    """What a registry demands: `scheme` is `bearer` or `basic`, in lower case."""

    scheme: str
    realm: str = ""
    service: str = ""


class _Token(msgspec.Struct, frozen=True):
    token: str = ""
    access_token: str = ""
    expires_in: int | None = None


def parse_challenges(headers: list[str]) -> Challenge | None:
    """The demand we can meet among `WWW-Authenticate` headers; a token before a password."""
    found = {}
    for header in headers:
        scheme, _, rest = header.strip().partition(" ")
        values = {name.lower(): quoted or bare for name, quoted, bare in _PARAMETER.findall(rest)}
        found[scheme.lower()] = Challenge(scheme.lower(), values.get("realm", ""), values.get("service", ""))
    return found.get("bearer") or found.get("basic")


class Authorizer:
    """Remembers, per endpoint and scope, what the registry accepted.

    Args:
        session: for token requests.
        settings: logins and the registries that may be spoken to without TLS.
        clock: monotonic seconds.
    """

    def __init__(
        self, session: aiohttp.ClientSession, settings: RegistrySettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._session = session
        self._settings = settings
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[str, float]] = {}

    def header(self, endpoint: Endpoint, scope: str) -> dict[str, str]:
        """The header known to work, or none."""
        value, until = self._known.get((endpoint.base, scope), ("", 0.0))
        return {"Authorization": value} if value and self._clock() < until else {}

    async def answer(self, endpoint: Endpoint, scope: str, challenge: Challenge) -> None:
        """Meet a challenge, so that `header` knows what to send.

        Raises:
            RegistryError: no login is known where one is needed, or the token server refuses.
            ConfigurationError: a credential helper fails.
        """
        login = await self._settings.credentials.login(Reference(endpoint.registry, endpoint.repository))
        if challenge.scheme == "basic":
            if login is None or not login.username:
                raise RegistryError(
                    f"{endpoint.registry} wants a user name and a password for {endpoint.repository}",
                    status=401,
                    next_step="log in (docker login writes what is read here), or give a pull secret",
                )
            self._known[endpoint.base, scope] = (_basic(login), float("inf"))
            return
        token, seconds = await self._token(endpoint, scope, challenge, login)
        self._known[endpoint.base, scope] = (f"Bearer {token}", self._clock() + max(seconds - _MARGIN_SECONDS, 1))

    async def _token(
        self, endpoint: Endpoint, scope: str, challenge: Challenge, login: Login | None
    ) -> tuple[str, int]:
        realm = urlsplit(challenge.realm)
        if realm.scheme != "https" and not (realm.scheme == "http" and self._may_be_plain(realm.netloc, endpoint)):
            raise RegistryError(
                f"{endpoint.registry} sends us to {challenge.realm!r} for a token, which is not HTTPS", status=401
            )
        fields = {"service": challenge.service, "scope": scope}
        try:
            if login is not None and login.identity_token:
                form = {**fields, "grant_type": "refresh_token", "refresh_token": login.identity_token}
                request = self._session.post(
                    challenge.realm, data={**form, "client_id": "accelkit"}, allow_redirects=False
                )
            else:
                headers = {"Authorization": _basic(login)} if login is not None else {}
                request = self._session.get(challenge.realm, params=fields, headers=headers, allow_redirects=False)
            async with request as response:
                content = await response.content.read(_MAX_TOKEN_BYTES)
                while len(content) < _MAX_TOKEN_BYTES and (more := await response.content.read(_MAX_TOKEN_BYTES)):
                    content += more
                status = response.status
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise RegistryError(
                f"the token server {realm.netloc} cannot be reached: {exc or type(exc).__name__}",
                retryable=True,
            ) from exc
        if status != 200:  # noqa: PLR2004 - HTTP's word for yes
            raise RegistryError(
                f"the token server {realm.netloc} refuses a token for {endpoint.repository}: HTTP {status}",
                status=status,
                retryable=status >= 500 or status == 429,  # noqa: PLR2004 - HTTP classes
                next_step="check the login for this registry" if login else "log in, or give a pull secret",
            )
        try:
            token = msgspec.json.decode(content, type=_Token)
        except msgspec.DecodeError as exc:
            raise RegistryError(f"the token server {realm.netloc} answered something that is no token") from exc
        value = token.token or token.access_token
        if not value or not value.isascii() or not value.isprintable():
            raise RegistryError(f"the token server {realm.netloc} answered without a usable token")
        return value, _DEFAULT_SECONDS if token.expires_in is None else token.expires_in

    def _may_be_plain(self, host: str, endpoint: Endpoint) -> bool:
        return host in self._settings.plain_http or f"http://{host}" == endpoint.base


def _basic(login: Login) -> str:
    return "Basic " + base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
