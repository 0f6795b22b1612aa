"""A configuration file of Docker's with one login, for programs that read logins from nowhere else."""

from __future__ import annotations

import base64
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from accelkit.kernelcache.oci.reference import DOCKER_HUB
from accelkit.kernelcache.registry import Login

_DOCKER_HUB_KEY = "https://index.docker.io/v1/"


@contextlib.contextmanager
def write_docker_config(registry: str, login: Login | None) -> Iterator[dict[str, str]]:
    """Write a login into a configuration file that nobody else can read, for as long as the context lasts.

    Args:
        registry: host, with its port.
        login: None leaves the program to those of Docker's user.

    Yields:
        The environment variables that lead the program there.
    """
    if login is None:
        yield {}
        return
    auth = {"auth": base64.b64encode(f"{login.username}:{login.password}".encode()).decode()}
    if login.identity_token:
        auth["identitytoken"] = login.identity_token
    key = _DOCKER_HUB_KEY if registry == DOCKER_HUB else registry
    with tempfile.TemporaryDirectory(prefix="accelkit-login-") as folder:
        path = Path(folder, "config.json")
        path.touch(0o600)
        path.write_bytes(msgspec.json.encode({"auths": {key: auth}}))
        yield {"DOCKER_CONFIG": folder}
