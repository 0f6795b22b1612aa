"""Reads the log-ins of a cache's pull secrets, one by one when they are needed: no list, no watch, nothing is kept."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from accelkit.cacheagent.planning.wishes import Wish
from accelkit.errors import AccelkitError, ApiError
from accelkit.kernelcache.registry import RegistryCredentials
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_object_path, build_secrets_path

_KEYS: Final = (".dockerconfigjson", ".dockercfg")
_MAX_SECRETS: Final = 16


class PullSecretError(AccelkitError):
    """A pull secret cannot be read, or holds no log-ins."""


class _Secret(msgspec.Struct):
    data: dict[str, str] = {}


def read_logins(
    api: ApiClient, own: RegistryCredentials, namespace: str
) -> Callable[[Wish], Awaitable[RegistryCredentials]]:
    """Return what reads the log-ins of a cache.

    Args:
        api: an open client.
        own: the agent's, for registries that the secrets do not know.
        namespace: of the secrets of ClusterGKMCaches.
    """

    async def read(wish: Wish) -> RegistryCredentials:
        place = wish.namespace or namespace
        documents = [await _read_secret(api, place, name) for name in wish.secrets[:_MAX_SECRETS]]
        return RegistryCredentials.from_documents(documents).followed_by(own)

    return read


async def _read_secret(api: ApiClient, namespace: str, name: str) -> tuple[str, bytes]:
    where = f"Secret {namespace}/{name}"
    try:
        path = build_object_path(build_secrets_path(namespace), name)
        secret = msgspec.json.decode(await api.get(path), type=_Secret)
    except ApiError as exc:
        if exc.unanswered:
            raise
        raise PullSecretError(
            f"{where} cannot be read: {exc.message}",
            next_step=f"create it, or let cache agents read the Secrets of {namespace} (docs/kernel-cache-agent.md)",
        ) from exc
    except UNREADABLE as exc:
        raise PullSecretError(f"{where} cannot be read: {exc}") from exc
    for key in _KEYS:
        if key in secret.data:
            try:
                return where, base64.b64decode(secret.data[key], validate=True)
            except ValueError as exc:
                raise PullSecretError(f"{where}: {key} is not base64") from exc
    raise PullSecretError(
        f"{where} holds neither {' nor '.join(_KEYS)}", next_step="make it with 'kubectl create secret docker-registry'"
    )
