"""The log-ins that the agent asks registries with: those of a cache's pull secrets, then its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from accelkit.cacheagent.planning.wishes import Wish
from accelkit.kernelcache.registry import RegistryCredentials
from accelkit.kernelcache.registry.pull_secrets import read_pull_secrets
from accelkit.kube.client import ApiClient


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
        return (await read_pull_secrets(api, wish.namespace or namespace, wish.secrets)).followed_by(own)

    return read
