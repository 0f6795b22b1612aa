"""Writer for a Docker configuration file with a single login, for programs that read logins only from such a file."""

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
    """Write a login to a temporary configuration file that only the current user can read.

    Args:
        registry: the host, with the port if it is specified.
        login: the login; None if the program should use the Docker logins of the user.

    Yields:
        The environment variables that configure the program to use the file.
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
