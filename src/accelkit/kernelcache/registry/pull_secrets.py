"""Reads the pull secrets of a cache, one by one: no list, no watch, and nothing is kept."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

import msgspec

from accelkit.errors import AccelkitError, ApiError, ConfigurationError
from accelkit.kernelcache.registry.credentials import RegistryCredentials
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_object_path, build_secrets_path

# Of one cache.
MAX_SECRETS: Final = 16
# Of these the first that is there is read.
PULL_SECRET_KEYS: Final = (".dockerconfigjson", ".dockercfg")


class PullSecretError(AccelkitError):
    """A pull secret cannot be read, or holds no log-ins."""


class _Secret(msgspec.Struct):
    data: dict[str, str] = {}


_decoder = msgspec.json.Decoder(_Secret)


async def read_pull_secrets(api: ApiClient, namespace: str, names: Sequence[str]) -> RegistryCredentials:
    """Return the log-ins of Secrets of a namespace.

    Args:
        api: an open client.
        namespace: of the Secrets.
        names: in the order in which they are asked; of more than `MAX_SECRETS` only the first are read.

    Raises:
        PullSecretError: one is not there, may not be read, or holds none.
        ApiError: the API server did not answer.
    """
    documents = []
    for name in names[:MAX_SECRETS]:
        where = f"Secret {namespace}/{name}"
        try:
            secret = _decoder.decode(await api.get(build_object_path(build_secrets_path(namespace), name)))
        except ApiError as exc:
            if exc.unanswered:
                raise
            raise PullSecretError(f"{where} cannot be read: {exc.message}", next_step=_advise(exc, namespace)) from exc
        except UNREADABLE as exc:
            raise PullSecretError(f"{where} cannot be read: {exc}") from exc
        documents.append((where, _decode(where, secret)))
    try:
        return RegistryCredentials.from_documents(documents)
    except ConfigurationError as exc:
        raise PullSecretError(exc.message, next_step=exc.next_step) from exc


def _advise(exc: ApiError, namespace: str) -> str:
    if exc.not_found:
        return f"create it in {namespace}, or take it out of imagePullSecrets"
    if exc.reason != "Forbidden":
        return "see that the API server answers; it is tried again"
    return f"name {namespace} in kernel_cache_pull_secret_namespaces, and run site.yml again"


def _decode(where: str, secret: _Secret) -> bytes:
    for key in PULL_SECRET_KEYS:
        if key in secret.data:
            try:
                return base64.b64decode(secret.data[key], validate=True)
            except ValueError as exc:
                raise PullSecretError(f"{where}: {key} is not base64") from exc
    raise PullSecretError(
        f"{where} holds neither {' nor '.join(PULL_SECRET_KEYS)}",
        next_step="make it with 'kubectl create secret docker-registry'",
    )
