"""Real registries: go-containerregistry's, with and without the referrers API, and Debian's docker-registry.

Each starter is a context manager that gives a `RealRegistry`; it raises `AbsentError` where something is not installed.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from registries import tokens
from registries.artifact import Artifact, push
from registries.hostile import HostileRegistry
from registries.process import listening

__all__ = ["PASSWORD", "USER", "AbsentError", "RealRegistry", "debian", "debian_with_tokens", "go"]

USER, PASSWORD = "reader", "open sesame"

_BCRYPT = "$2b$05$2UJ8ze7qNi41qwVtS1G3euheF0ZajEOXmtSPe2r.tRJlkUdpfSb76"  # of PASSWORD
_SERVER = Path(__file__).parent / "server"
_CACHE = Path(__file__).parents[2] / ".cache" / "test-registry"
_BUILD_SECONDS = 110.0


class AbsentError(Exception):
    """This machine lacks what the registry needs; the message says what."""


@dataclass(frozen=True)
class RealRegistry:
    """A registry that runs.

    Args:
        host: `127.0.0.1:PORT`, as an image reference begins.
        referrers: whether it has the referrers API.
        open_ranges: whether it serves `Range: bytes=N-`; all of them serve ranges with both ends.
        credentials: user and password where it demands them.
        token_server: who gives tokens where it demands those; it takes the same user and password.
    """

    host: str
    referrers: bool
    open_ranges: bool
    credentials: tuple[str, str] | None = None
    token_server: HostileRegistry | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def repository(self) -> str:
        """A name that nobody used before."""
        return f"team-{uuid.uuid4().hex[:12]}/app"

    def push(self, repository: str, artifact: Artifact, *, tag: str | None = None) -> str:
        """Push by plain means, with the credentials it wants; the manifest's digest is returned."""
        headers = {}
        if self.token_server is not None:
            headers["Authorization"] = f"Bearer {tokens.pushing(self.token_server.url, repository, USER, PASSWORD)}"
        elif self.credentials is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(":".join(self.credentials).encode()).decode()
        return push(self.url, repository, artifact, tag=tag, headers=headers)


@contextlib.contextmanager
def go(*, referrers: bool, guarded: bool = False) -> Iterator[RealRegistry]:
    """go-containerregistry's registry; it answers a PATCH with 204 where the specification has 202."""
    command = [str(_built()), f"-referrers={str(referrers).lower()}"]
    if guarded:
        command += ["-basic", f"{USER}:{PASSWORD}"]
    with listening(command, says=r"^listening on (\S+)") as host:
        credentials = (USER, PASSWORD) if guarded else None
        yield RealRegistry(host, referrers=referrers, open_ranges=False, credentials=credentials)


@contextlib.contextmanager
def debian(*, guarded: bool = False) -> Iterator[RealRegistry]:
    """Debian's docker-registry, which knows no referrers."""
    with tempfile.TemporaryDirectory(prefix="ak-registry-") as folder:
        auth: dict[str, object] = {}
        if guarded:
            passwords = Path(folder, "htpasswd")
            passwords.write_text(f"{USER}:{_BCRYPT}\n")
            auth = {"htpasswd": {"realm": "test", "path": str(passwords)}}
        with _docker_registry(Path(folder), auth) as host:
            yield RealRegistry(
                host, referrers=False, open_ranges=True, credentials=(USER, PASSWORD) if guarded else None
            )


@contextlib.contextmanager
def debian_with_tokens() -> Iterator[RealRegistry]:
    """Debian's docker-registry behind a token server."""
    with tempfile.TemporaryDirectory(prefix="ak-registry-") as folder, HostileRegistry() as server:
        authority = tokens.TokenAuthority(USER, PASSWORD)
        server.on("GET", "/token", authority.handler)
        bundle = Path(folder, "tokens.pem")
        bundle.write_bytes(authority.certificate_pem)
        token = {
            "realm": f"{server.url}/token",
            "service": tokens.SERVICE,
            "issuer": tokens.ISSUER,
            "rootcertbundle": str(bundle),
        }
        with _docker_registry(Path(folder), {"token": token}) as host:
            yield RealRegistry(
                host, referrers=False, open_ranges=True, credentials=(USER, PASSWORD), token_server=server
            )


@contextlib.contextmanager
def _docker_registry(folder: Path, auth: dict[str, object]) -> Iterator[str]:
    executable = shutil.which("docker-registry")
    if executable is None:
        raise AbsentError("docker-registry is not installed")
    document = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}, "delete": {"enabled": True}},
        "http": {"addr": "127.0.0.1:0", "secret": uuid.uuid4().hex},
    }
    configuration = folder / "config.yml"
    configuration.write_text(json.dumps(document | ({"auth": auth} if auth else {})))
    with listening([executable, "serve", str(configuration)], says=r"listening on ([0-9.:]+[0-9])") as host:
        yield host


def _built() -> Path:
    """The path of our Go registry, built at most once for each state of its sources."""
    executable = shutil.which("go")
    if executable is None:
        raise AbsentError("Go is not installed")
    sources = sorted(each for each in _SERVER.iterdir() if each.name in ("go.mod", "go.sum", "main.go"))
    target = _CACHE / hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:16] / "registry"
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        unfinished = target.with_suffix(".new")
        settings = {"CGO_ENABLED": "0", "GO111MODULE": "on", "GOWORK": "off"}
        command = [executable, "-C", str(_SERVER), "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o"]
        done = subprocess.run(
            [*command, str(unfinished), "."],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"the registry for tests cannot be built: {done.stderr[-2000:]}")
        unfinished.rename(target)
    return target
