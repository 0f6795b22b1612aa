"""Registry credentials for a cache. Its pull secrets take precedence over the agent's own credentials."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from accelkit.cacheagent.planning.desired_caches import DesiredCache
from accelkit.kernelcache.registry import RegistryCredentials
from accelkit.kernelcache.registry.pull_secrets import read_pull_secrets
from accelkit.kube.client import ApiClient


def read_logins(
    api: ApiClient, own: RegistryCredentials, namespace: str
) -> Callable[[DesiredCache], Awaitable[RegistryCredentials]]:
    """Return a function that reads the credentials for a cache.

    Args:
        api: open client.
        own: the agent's credentials, which are used for registries without a pull secret.
        namespace: namespace of the pull secrets for ClusterGKMCaches.
    """

    async def read(desired: DesiredCache) -> RegistryCredentials:
        return (await read_pull_secrets(api, desired.namespace or namespace, desired.secrets)).followed_by(own)

    return read
