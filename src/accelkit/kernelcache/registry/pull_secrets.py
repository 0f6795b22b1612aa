"""Reader for the pull secrets of a cache, which reads each Secret individually, without list or watch requests."""

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

# The maximum number of pull secrets for one cache.
MAX_SECRETS: Final = 16
# Only the first existing key in this list is read.
PULL_SECRET_KEYS: Final = (".dockerconfigjson", ".dockercfg")


class PullSecretError(AccelkitError):
    """A pull secret cannot be read, or contains no logins."""


class _Secret(msgspec.Struct):
    data: dict[str, str] = {}


_decoder = msgspec.json.Decoder(_Secret)


async def read_pull_secrets(api: ApiClient, namespace: str, names: Sequence[str]) -> RegistryCredentials:
    """Return the logins from Secrets in a namespace.

    Args:
        api: an open client.
        namespace: the namespace of the Secrets.
        names: the names of the Secrets, in order of precedence; only the first `MAX_SECRETS` are read.

    Raises:
        PullSecretError: a Secret is missing, is not readable, or contains no logins.
        ApiError: the API server did not respond.
    """
    documents = []
    for name in names[:MAX_SECRETS]:
        where = f"Secret {namespace}/{name}"
        try:
            secret = _decoder.decode(await api.get(build_object_path(build_secrets_path(namespace), name)))
        except ApiError as exc:
            if exc.unanswered:
                raise
            raise PullSecretError(f"cannot read {where}: {exc.message}", next_step=_advise(exc, namespace)) from exc
        except UNREADABLE as exc:
            raise PullSecretError(f"cannot read {where}: {exc}") from exc
        documents.append((where, _decode(where, secret)))
    try:
        return RegistryCredentials.from_documents(documents)
    except ConfigurationError as exc:
        raise PullSecretError(exc.message, next_step=exc.next_step) from exc


def _advise(exc: ApiError, namespace: str) -> str:
    if exc.not_found:
        return f"create it in {namespace}, or remove it from imagePullSecrets"
    if exc.reason != "Forbidden":
        return "check that the API server responds; accelkit retries automatically"
    return f"add {namespace} to kernel_cache_pull_secret_namespaces, and run site.yml again"


def _decode(where: str, secret: _Secret) -> bytes:
    for key in PULL_SECRET_KEYS:
        if key in secret.data:
            try:
                return base64.b64decode(secret.data[key], validate=True)
            except ValueError as exc:
                raise PullSecretError(f"{where}: {key} is not base64") from exc
    raise PullSecretError(
        f"{where} contains neither {' nor '.join(PULL_SECRET_KEYS)}",
        next_step="create it with 'kubectl create secret docker-registry'",
    )
