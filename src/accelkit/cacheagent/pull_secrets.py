"""The agent's credentials for registries: those from a cache's pull secrets first, then its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from accelkit.cacheagent.planning.desired_caches import DesiredCache
from accelkit.kernelcache.registry import RegistryCredentials
from accelkit.kernelcache.registry.pull_secrets import read_pull_secrets
from accelkit.kube.client import ApiClient


def read_logins(
    api: ApiClient, own: RegistryCredentials, namespace: str
) -> Callable[[DesiredCache], Awaitable[RegistryCredentials]]:
    """Return the function that reads the credentials for a cache.

    Args:
        api: an open client.
        own: the agent's credentials, for registries that the secrets do not contain.
        namespace: namespace of the secrets of ClusterGKMCaches.
    """

    async def read(desired: DesiredCache) -> RegistryCredentials:
        return (await read_pull_secrets(api, desired.namespace or namespace, desired.secrets)).followed_by(own)

    return read
