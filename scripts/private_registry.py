"""A registry that wants a log-in, for tests: Debian's docker-registry with one user, without TLS."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kind_cluster import KindError

USER, PASSWORD = "reader", "open sesame"
# Of the password.
_BCRYPT = "$2b$05$2UJ8ze7qNi41qwVtS1G3euheF0ZajEOXmtSPe2r.tRJlkUdpfSb76"
_START_SECONDS = 30


@dataclass(frozen=True)
class PrivateRegistry:
    """A registry that runs.

    Attributes:
        host: its address and port, the same for this machine and for nodes.
        config: a folder with Docker's configuration that has the log-in, as `DOCKER_CONFIG` names it.
    """

    host: str
    config: Path

    @property
    def log_in(self) -> str:
        """The log-in, as pull secrets hold it."""
        return (self.config / "config.json").read_text()


@contextlib.contextmanager
def private_registry(address: str, folder: Path) -> Iterator[PrivateRegistry]:
    """Run a registry on an address of this machine, with its files in a folder, until the block ends.

    Raises:
        KindError: docker-registry is not installed, or does not start.
    """
    program = shutil.which("docker-registry")
    if program is None:
        raise KindError("docker-registry is not on PATH; install it by `make programs`")
    with socket.create_server((address, 0)) as probe:
        host = f"{address}:{probe.getsockname()[1]}"
    folder.mkdir()
    (folder / "htpasswd").write_text(f"{USER}:{_BCRYPT}\n")
    document = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": host},
        "auth": {"htpasswd": {"realm": "private", "path": str(folder / "htpasswd")}},
    }
    (folder / "config.yml").write_text(json.dumps(document))
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": login}}}))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=log, stderr=subprocess.STDOUT)
        try:
            _await_start(process, host, folder / "log")
            yield PrivateRegistry(host, folder)
        finally:
            process.terminate()
            process.wait(timeout=_START_SECONDS)


def _await_start(process: subprocess.Popen[bytes], host: str, log: Path) -> None:
    address, _, port = host.partition(":")
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection((address, int(port)), timeout=1).close()
        except OSError as exc:
            if process.poll() is not None or time.monotonic() > deadline:
                raise KindError(f"docker-registry does not start at {host}:\n{log.read_text()[-2000:]}") from exc
            time.sleep(0.1)
        else:
            return
