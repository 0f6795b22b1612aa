"""The processes of the control plane, with their options and readiness probes."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.sandbox.binaries import Binaries
from accelkit.sandbox.layout import ROOT_VARIABLE, SandboxOptions, SandboxPaths
from accelkit.sandbox.processes import Child

_SERVICES = "10.96.0.0/16"


@dataclass(frozen=True)
class Ports:
    """Ports on the loopback address that were not in use when they were chosen."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int

    @classmethod
    def choose_free(cls) -> Ports:
        """Choose ports that are not in use."""
        sockets = [socket.socket() for _ in range(5)]
        try:
            for one in sockets:
                one.bind(("127.0.0.1", 0))
            return cls(*(one.getsockname()[1] for one in sockets))
        finally:
            for one in sockets:
                one.close()


def render_scheduler_config(paths: SandboxPaths) -> str:
    """Return the initial configuration of kube-scheduler, without an extender."""
    return (
        "# kube-scheduler of the accelkit sandbox\n"
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "clientConnection:\n"
        f"  kubeconfig: {paths.build_kubeconfig_path('kube-scheduler')}\n"
        "leaderElection:\n"
        "  leaderElect: false\n"
    )


def make_etcd(paths: SandboxPaths, binaries: Binaries, ports: Ports) -> Child:
    """Return the etcd process. It does not use fsync, because the sandbox does not survive a restart of the machine."""
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    return _make_child(
        paths,
        binaries.etcd,
        "etcd",
        # Set the name explicitly, because it must match --initial-cluster even if the user has set ETCD_NAME.
        *(f"--data-dir={paths.root / 'etcd'}", "--name=default", "--unsafe-no-fsync", "--log-level=warn"),
        *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
        *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"),
    )


def make_apiserver(paths: SandboxPaths, binaries: Binaries, ports: Ports, options: SandboxOptions) -> Child:
    """Return the kube-apiserver process, with the authorizers of a real cluster."""
    pki = paths.pki
    return _make_child(
        paths,
        binaries.kube_apiserver,
        "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={ports.apiserver}"),
        "--endpoint-reconciler-type=none",
        *(f"--tls-cert-file={pki / 'apiserver.crt'}", f"--tls-private-key-file={pki / 'apiserver.key'}"),
        *(f"--client-ca-file={pki / 'ca.crt'}", "--authorization-mode=Node,RBAC", "--allow-privileged=true"),
        "--service-account-issuer=https://kubernetes.default.svc",
        *(f"--service-account-key-file={pki / 'sa.crt'}", f"--service-account-signing-key-file={pki / 'sa.key'}"),
        f"--service-cluster-ip-range={_SERVICES}",
        *options.apiserver_args,
    )


def make_controller_manager(paths: SandboxPaths, binaries: Binaries, ports: Ports) -> Child:
    """Return the kube-controller-manager process."""
    pki = paths.pki
    return _make_child(
        paths,
        binaries.kube_controller_manager,
        "kube-controller-manager",
        f"--kubeconfig={paths.build_kubeconfig_path('kube-controller-manager')}",
        *("--bind-address=127.0.0.1", f"--secure-port={ports.controller_manager}", "--leader-elect=false"),
        *("--use-service-account-credentials", f"--service-account-private-key-file={pki / 'sa.key'}"),
        f"--root-ca-file={pki / 'ca.crt'}",
        # Nodes must remain ready on a laptop that resumes from suspension, and on a machine with only two cores under
        # load.
        "--node-monitor-grace-period=60s",
    )


def make_scheduler(paths: SandboxPaths, binaries: Binaries, ports: Ports) -> Child:
    """Return the kube-scheduler process. Its configuration file contains all settings except the address."""
    return _make_child(
        paths,
        binaries.kube_scheduler,
        "kube-scheduler",
        f"--config={paths.scheduler_config}",
        *("--bind-address=127.0.0.1", f"--secure-port={ports.scheduler}"),
    )


def probe_http(url: str, authority: Path | None = None) -> Callable[[], Awaitable[bool]]:
    """Return a probe that checks whether `url` returns status 200. Without `authority`, it trusts all certificates."""
    context = ssl.create_default_context(cafile=authority)
    if authority is None:
        # kube-scheduler and kube-controller-manager use self-signed certificates.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE

    async def probe() -> bool:
        timeout = aiohttp.ClientTimeout(total=2)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, ssl=context) as response:
                return response.status == 200  # noqa: PLR2004 - HTTP's OK
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    return probe


def probe_default_account(paths: SandboxPaths) -> Callable[[], Awaitable[bool]]:
    """Return a probe that checks whether the default service account exists. Pods require this account."""

    async def probe() -> bool:
        try:
            async with ApiClient(load_connection(paths.build_kubeconfig_path("admin")), timeout_seconds=2) as api:
                await api.get(build_object_path(build_collection_path("v1", "serviceaccounts", "default"), "default"))
        except ApiError:
            return False
        return True

    return probe


def build_environment(paths: SandboxPaths) -> dict[str, str]:
    """Return the environment of this process, plus the variable that identifies the processes of a sandbox."""
    return {**os.environ, ROOT_VARIABLE: str(paths.root)}


def _make_child(paths: SandboxPaths, executable: Path, name: str, *arguments: str) -> Child:
    return Child(name, [str(executable), *arguments], paths.logs / f"{name}.log", build_environment(paths))
