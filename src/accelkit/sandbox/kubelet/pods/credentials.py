"""A pod's access to the API server: the files of its service account, and environment variables with the address.

The token is bound to the pod and renewed while the pod runs.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from ruamel.yaml.error import YAMLError

from accelkit.errors import ApiError, SandboxError
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.sandbox.kubelet.wire import Pod
from accelkit.yaml import load_yaml

__all__ = ["PodCredentials", "build_api_environment", "read_certificate_authority"]

log = logging.getLogger(__name__)

_LIFETIME_SECONDS = 3600
_REFRESH_SECONDS = _LIFETIME_SECONDS * 0.8
_RETRY_SECONDS = 10.0


class _TokenStatus(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


class PodCredentials:
    """The service account files of one pod.

    Args:
        api: a client that may request tokens.
        pod: the pod to which the token is bound.
        folder: the folder of the volume. It is created with access for only its owner.
        authority: the CA certificates of the API server, in PEM format.
    """

    def __init__(self, api: ApiClient, pod: Pod, *, folder: Path, authority: bytes) -> None:
        self._api = api
        self._pod = pod
        self._folder = folder
        self._authority = authority

    async def write(self) -> None:
        """Request a token and write the files.

        Raises:
            ApiError: the API server does not issue a token.
        """
        token = await self._request()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        self._replace(self._folder / "token", token.encode())
        self._replace(self._folder / "ca.crt", self._authority)
        self._replace(self._folder / "namespace", self._pod.metadata.namespace.encode())

    async def keep_fresh(self) -> None:
        """Renew each token after 80 % of its lifetime, until cancelled."""
        delay = _REFRESH_SECONDS
        while True:
            await asyncio.sleep(delay)
            try:
                self._replace(self._folder / "token", (await self._request()).encode())
                delay = _REFRESH_SECONDS
            except ApiError as exc:
                log.warning("token not renewed pod=%s reason=%s", self._pod.path, exc)
                delay = _RETRY_SECONDS

    async def _request(self) -> str:
        meta, account = self._pod.metadata, self._pod.spec.service_account_name
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": _LIFETIME_SECONDS,
                "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": meta.name, "uid": meta.uid},
            },
        }
        path = build_object_path(build_collection_path("v1", "serviceaccounts", meta.namespace), account)
        answer = await self._api.post(f"{path}/token", body)
        return msgspec.json.decode(answer, type=_TokenRequest).status.token

    def _replace(self, path: Path, content: bytes) -> None:
        # Write a temporary file and rename it, because the process may read the file at any time.
        temporary = path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        temporary.replace(path)


def build_api_environment(api: ApiClient) -> dict[str, str]:
    """Return the environment variables with the address of the API server, which every pod has."""
    server = urlsplit(api.server)
    return {
        "KUBERNETES_SERVICE_HOST": server.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(server.port or 443),
    }


def read_certificate_authority(kubeconfig: Path) -> bytes:
    """Return the CA certificates of the first cluster in a kubeconfig file, in PEM format; empty if it has none.

    Raises:
        SandboxError: the kubeconfig file cannot be read or is invalid.
    """
    try:
        document: Any = load_yaml(kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        if "certificate-authority-data" in cluster:
            return base64.b64decode(cluster["certificate-authority-data"])
        if "certificate-authority" in cluster:
            return (kubeconfig.parent / str(cluster["certificate-authority"])).read_bytes()
    except (OSError, ValueError, YAMLError, LookupError, TypeError) as exc:
        raise SandboxError(f"cannot read the kubeconfig {kubeconfig}: {exc}") from exc
    return b""
