"""The extenders that a benchmark compares: ours, as it is installed, and one that decides nothing.

Both serve mutual TLS with certificates of one authority, and reach the API server as a pod does, by the token of one
service account that has the rights of the role `extender`. A way without an extender is part of the comparison.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import world
from bare_cluster import BareCluster, running

from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.sandbox import control_plane
from accelkit.sandbox.certificates import Authority
from accelkit.sandbox.processes import Child
from accelkit.scheduler.configuration.component_config import ExtenderEntry, add_extender
from accelkit.serving.tls import CLIENT_NAME

# The ways of a comparison, with the options of the null extender; `none` is a kube-scheduler without an extender.
NONE, NULL, OURS = "none", "null", "ours"
NULL_OPTIONS: Final = {
    NULL: (),
    "null-http1": ("-http1",),
    "null-keep-16": ("-keep", "16"),
    "null-keep-1": ("-keep", "1"),
}
WAYS: Final = (NONE, *NULL_OPTIONS, OURS)

_SOURCE = Path(__file__).with_name("null_extender")
_BUILD = Path(__file__).parents[1] / "build" / "bench"
_NAMESPACE, _ACCOUNT = "accelkit", "accelkit-extender"
_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/binding", "events"], "verbs": ["create"]},
]
# As high as no client of these benchmarks comes.
_LIMITS = "clientConnection:\n  qps: 5000\n  burst: 5000\n"


@dataclass(frozen=True)
class Credentials:
    """The folders of an extender's certificates and of its service account."""

    pki: Path
    account: Path

    def make_client_context(self) -> ssl.SSLContext:
        """Return the TLS of a client that extenders serve, as kube-scheduler is one."""
        context = ssl.create_default_context(cafile=self.pki / "ca.crt")
        context.load_cert_chain(self.pki / "client.crt", self.pki / "client.key")
        return context


@dataclass(frozen=True)
class RunningExtender:
    """An extender that is ready."""

    url: str
    child: Child


async def issue_credentials(cluster: BareCluster) -> Credentials:
    """Write certificates, and a service account's token, below the cluster's folder."""
    pki, account = cluster.paths.root / "extender-pki", cluster.paths.root / "extender-account"
    pki.mkdir()
    account.mkdir()
    authority = Authority("bench")
    pairs = {
        "server": authority.issue_server(_ACCOUNT, ("127.0.0.1",)),
        "client": authority.issue_client(CLIENT_NAME),
    }
    for name, pair in pairs.items():
        (pki / f"{name}.crt").write_bytes(pair.certificate)
        (pki / f"{name}.key").write_bytes(pair.key)
    (pki / "ca.crt").write_bytes(authority.certificate)
    (account / "ca.crt").write_bytes((cluster.paths.pki / "ca.crt").read_bytes())
    (account / "token").write_text(await _create_token(cluster))
    return Credentials(pki, account)


def build_scheduler_config(cluster: BareCluster, credentials: Credentials, url: str | None) -> str:
    """Return the sandbox's configuration of kube-scheduler without limits, with the extender at this URL if any."""
    text = control_plane.render_scheduler_config(cluster.paths).replace("clientConnection:\n", _LIMITS)
    if url is None:
        return text
    pki = credentials.pki
    tls = {"caFile": str(pki / "ca.crt"), "certFile": str(pki / "client.crt"), "keyFile": str(pki / "client.key")}
    return add_extender(text, ExtenderEntry(url_prefix=url, enable_https=True, tls_config=tls))


def build_null_extender() -> Path:
    """Build the null extender with the Go toolchain on PATH; return the program.

    Raises:
        SystemExit: there is no Go, or it fails.
    """
    go = shutil.which("go")
    if go is None:
        raise SystemExit(
            "the null extender, against which others are measured, cannot be built: no `go` on PATH; "
            "install Go 1.24 or newer (https://go.dev/dl), or leave the ways `null…` out with --ways none ours"
        )
    program = _BUILD / "null_extender"
    # The standard library is all that it needs, so nothing is asked of a network.
    environ = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "",
    }
    command = [go, "build", "-trimpath", "-o", str(program), "."]
    done = subprocess.run(command, cwd=_SOURCE, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"the null extender cannot be built with {go}, which has to be Go 1.24 or newer:\n{done.stderr}"
        )
    return program


@asynccontextmanager
async def running_extender(
    cluster: BareCluster, credentials: Credentials, way: str, *options: str
) -> AsyncIterator[RunningExtender]:
    """Run an extender from the moment it is ready to the end of the block.

    Args:
        cluster: whose pods it binds.
        credentials: its certificates and account.
        way: one of `WAYS` but `none`.
        options: more options of ours.
    """
    port, pki = world.find_free_port(), credentials.pki
    url, server = f"https://127.0.0.1:{port}", urlsplit(cluster.url)
    common: list[str | Path] = ["--listen", f"127.0.0.1:{port}", "--client-ca", pki / "ca.crt"]
    common += ["--tls-cert", pki / "server.crt", "--tls-key", pki / "server.key"]
    environ = {
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "ACCELKIT_SERVICE_ACCOUNT": str(credentials.account),
    }
    if way == OURS:
        probes = world.find_free_port()
        ours = [sys.executable, "-m", "accelkit", "extender", "--wake", "--probe-port", str(probes)]
        child = cluster.make_child(way, [*ours, *common, *options], **environ)
        probe = control_plane.probe_http(f"http://127.0.0.1:{probes}/readyz")
    else:
        program = await asyncio.to_thread(build_null_extender)
        null = [program, *common, "--account", credentials.account, *NULL_OPTIONS[way]]
        child = cluster.make_child(way, null, **environ)
        probe = _probe_tls(url, credentials.make_client_context())
    async with running(child, probe):
        yield RunningExtender(url, child)


class ExtenderClient:
    """The HTTP of a running extender, as kube-scheduler uses it."""

    def __init__(self, session: aiohttp.ClientSession, url: str, tls: ssl.SSLContext) -> None:
        self._session, self._url, self._tls = session, url, tls

    async def post(self, verb: str, body: bytes) -> bytes:
        """Send a verb with its encoded arguments; return the encoded answer."""
        headers = {"Content-Type": "application/json"}
        async with self._session.post(f"{self._url}/{verb}", data=body, headers=headers, ssl=self._tls) as reply:
            answer = await reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{verb}: {reply.status} {answer[:300]!r}")
        return answer

    async def inspect(self) -> dict[str, Any]:
        """Return what `accelkit inspect` shows."""
        async with self._session.get(f"{self._url}/inspect", ssl=self._tls) as reply:
            inspected: dict[str, Any] = json.loads(await reply.read())
        return inspected


@asynccontextmanager
async def client_of(extender: RunningExtender, credentials: Credentials) -> AsyncIterator[ExtenderClient]:
    """Connect to a running extender."""
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield ExtenderClient(session, extender.url, credentials.make_client_context())


async def _create_token(cluster: BareCluster) -> str:
    rbac, api = build_collection_path("rbac.authorization.k8s.io/v1", "{}"), cluster.api
    account = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": _NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ACCOUNT}
    metadata = {"name": _ACCOUNT}
    accounts = build_collection_path("v1", "serviceaccounts", _NAMESPACE)
    await api.post(build_collection_path("v1", "namespaces"), {"metadata": {"name": _NAMESPACE}})
    await api.post(accounts, {"metadata": metadata})
    await api.post(rbac.format("clusterroles"), {"metadata": metadata, "rules": _RULES})
    bound = {"metadata": metadata, "roleRef": role, "subjects": [account]}
    await api.post(rbac.format("clusterrolebindings"), bound)
    asked = {"spec": {"expirationSeconds": 24 * 3600}}
    answer = json.loads(await api.post(f"{build_object_path(accounts, _ACCOUNT)}/token", asked))
    return str(answer["status"]["token"])


def _probe_tls(url: str, tls: ssl.SSLContext) -> Callable[[], Awaitable[bool]]:
    async def probe() -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(url, ssl=tls):
                return True
        except aiohttp.ClientError:
            return False

    return probe
