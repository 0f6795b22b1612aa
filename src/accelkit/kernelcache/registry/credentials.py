"""Registry credentials from Docker's configuration file, pull secrets and credential helpers."""

from __future__ import annotations

import asyncio
import base64
import binascii
import fnmatch
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.reference import DOCKER_HUB, Reference

_HELPER_SECONDS = 10
_HELPER_NAME = re.compile(r"[A-Za-z0-9._-]+")
# The key for Docker Hub in configuration files and credential helpers.
_DOCKER_HUB_KEY = "https://index.docker.io/v1/"
# With this user name, a helper returns a refresh token instead of a password.
_TOKEN_USER = "<token>"  # noqa: S105 - a marker of the helpers' protocol


@dataclass(frozen=True)
class Login:
    """A user name with a password or a refresh token."""

    username: str = ""
    password: str = ""
    identity_token: str = ""

    def __repr__(self) -> str:
        return f"Login({self.username!r}, …)"


class _Auth(msgspec.Struct, frozen=True):
    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    auths: dict[str, _Auth] = {}
    cred_helpers: dict[str, str] = {}
    creds_store: str = ""


class _HelperAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    username: str = ""
    secret: str = ""


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_auths = msgspec.json.Decoder(dict[str, _Auth])
_config = msgspec.json.Decoder(_Config)
_helper_answer = msgspec.json.Decoder(_HelperAnswer)


class RegistryCredentials:
    """Registry logins from several sources. The first source with a login for a registry takes precedence.

    Args:
        logins: logins, keyed by registry host.
        configs: documents in the format of Docker's `config.json`, which pull secrets also use.
    """

    def __init__(self, logins: Mapping[str, Login] | None = None, configs: Iterable[_Config] = ()) -> None:
        self._logins = {_normalize_host(key): login for key, login in (logins or {}).items()}
        self._configs = tuple(configs)

    @classmethod
    def from_files(cls, paths: Iterable[Path], logins: Mapping[str, Login] | None = None) -> RegistryCredentials:
        """Return the logins from files in the format of Docker's `config.json` or of a pull secret.

        Raises:
            ConfigurationError: a file cannot be read.
        """
        return cls(logins, [_read_config(path) for path in paths])

    @classmethod
    def of_user(cls, environ: Mapping[str, str] = os.environ) -> RegistryCredentials:
        """Return the current user's logins from `$DOCKER_CONFIG/config.json` or, by default, `~/.docker/config.json`.

        Raises:
            ConfigurationError: the file exists, but cannot be read.
        """
        home = Path(environ.get("HOME", "/"))
        path = Path(environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json"
        return cls.from_files([path] if path.is_file() else [])

    @classmethod
    def from_documents(cls, documents: Iterable[tuple[str, bytes]]) -> RegistryCredentials:
        """Return the logins from tenants' pull secrets. Ignore credential helpers, because they would run on this host.

        Args:
            documents: the name of each document, for messages, and its content in Docker's format.

        Raises:
            ConfigurationError: a document cannot be read.
        """
        return cls(configs=[_Config(auths=_decode_config(where, content).auths) for where, content in documents])

    def followed_by(self, other: RegistryCredentials) -> RegistryCredentials:
        """Return these logins, followed by the logins from another source, which has lower precedence."""
        return RegistryCredentials({**other._logins, **self._logins}, (*self._configs, *other._configs))

    async def find_login(self, reference: Reference) -> Login | None:
        """Return the login for a repository; None for anonymous access.

        Raises:
            ConfigurationError: a configured credential helper failed.
        """
        if reference.registry in self._logins:
            return self._logins[reference.registry]
        for config in self._configs:
            if (found := await _find_login(config, reference)) is not None:
                return found
        return None


def _read_config(path: Path) -> _Config:
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise _refuse_config(str(path), exc) from exc
    return _decode_config(str(path), content)


def _decode_config(where: str, content: bytes) -> _Config:
    try:
        fields = _fields.decode(content)
        # The oldest pull secret format consists of only the inner mapping.
        if fields and not fields.keys() & {"auths", "credHelpers", "credsStore"} and all(map(_is_host, fields)):
            return _Config(auths=_auths.decode(content))
        return _config.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise _refuse_config(where, exc) from exc


def _refuse_config(where: str, cause: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"cannot read the registry logins in {where}: {cause}",
        next_step="use a file in the format of Docker's config.json or of a pull secret's .dockerconfigjson",
    )


async def _find_login(config: _Config, reference: Reference) -> Login | None:
    hub = reference.registry == DOCKER_HUB
    for registry, helper in config.cred_helpers.items():
        if _normalize_host(registry) == reference.registry:
            return await _run_helper(helper, registry)
    matching = [key for key in config.auths if _covers(_strip_scheme(key), reference)]
    for key in sorted(matching, key=_rank, reverse=True):
        if (login := _decode_login(key, config.auths[key])) is not None:
            return login
    if config.creds_store:
        return await _run_helper(config.creds_store, _DOCKER_HUB_KEY if hub else reference.registry)
    return None


def _decode_login(key: str, auth: _Auth) -> Login | None:
    if auth.identitytoken:
        return Login(identity_token=auth.identitytoken)
    if auth.username or auth.password:
        return Login(auth.username, auth.password)
    if not auth.auth:
        return None
    try:
        username, colon, password = base64.b64decode(auth.auth, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"the login for {key} is not base64 of user:password") from exc
    if not colon:
        raise ConfigurationError(f"the login for {key} is not base64 of user:password")
    return Login(username, password.rstrip("\0"))


def _strip_scheme(key: str) -> str:
    bare = re.sub(r"^https?://", "", key).rstrip("/")
    # `/v1/` and `/v2/` are paths of the registry API, not of a repository.
    return re.sub(r"/v[12]$", "", bare)


def _is_host(key: str) -> bool:
    host = _normalize_host(key)
    return "." in host or ":" in host or host == "localhost"


def _rank(key: str) -> tuple[int, bool]:
    """Return a sort key for precedence: longer paths take precedence, and then hosts without a wildcard."""
    host, _, path = _strip_scheme(key).partition("/")
    return len(path), "*" not in host


def normalize_registry(host: str) -> str:
    """Return the registry name as it appears in references: in lower case, and `docker.io` for Docker Hub."""
    lowered = host.lower()
    return DOCKER_HUB if lowered in {"index.docker.io", "registry-1.docker.io"} else lowered


def _normalize_host(key: str) -> str:
    return normalize_registry(_strip_scheme(key).partition("/")[0])


def _covers(key: str, reference: Reference) -> bool:
    host, _, path = key.partition("/")
    wanted, given = reference.registry.split("."), _normalize_host(host).split(".")
    # As in the kubelet, a wildcard matches one label of a host name or a part of it. An IPv6 address is not a pattern.
    if wanted != given and (
        len(wanted) != len(given) or not all(fnmatch.fnmatchcase(*pair) for pair in zip(wanted, given, strict=True))
    ):
        return False
    return not path or reference.repository == path or reference.repository.startswith(path + "/")


async def _run_helper(helper: str, server: str) -> Login | None:
    if not _HELPER_NAME.fullmatch(helper):
        raise ConfigurationError(f"{helper!r} is not a valid name of a credential helper")
    program = f"docker-credential-{helper}"
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "get",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as exc:
        raise ConfigurationError(f"cannot start the credential helper {program} for {server}: {exc}") from exc
    try:
        async with asyncio.timeout(_HELPER_SECONDS):
            out, err = await process.communicate(server.encode())
    except TimeoutError as exc:
        raise ConfigurationError(f"the credential helper {program} did not respond within {_HELPER_SECONDS} s") from exc
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        if b"credentials not found" in out + err:
            return None
        reason = (err or out).decode(errors="replace").strip()[:200]
        raise ConfigurationError(f"the credential helper {program} failed for {server}: {reason}")
    try:
        answer = _helper_answer.decode(out)
    except msgspec.DecodeError as exc:
        raise ConfigurationError(
            f"the response of the credential helper {program} does not have the format of its protocol"
        ) from exc
    if answer.username == _TOKEN_USER:
        return Login(identity_token=answer.secret)
    return Login(answer.username, answer.secret)
