"""A keeper on a control-plane host whose manifest is written anew, as by `kubeadm upgrade`, with a real scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Cluster, Sandbox
from control_plane_host import MANIFEST, Down, StaticPod, make_root, read_files
from control_plane_host import until as wait_for
from ports import free_port
from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.lease import RUN_LEASE
from accelkit.kube.objects import delete_if_present
from accelkit.kube.paths import build_leases_path, build_object_path
from accelkit.sandbox.binaries import find_binaries, find_cache_dir
from accelkit.sandbox.layout import write_atomically

pytestmark = [pytest.mark.integration, pytest.mark.extended, pytest.mark.timeout(600)]

NODE = "keeper-1"
LEASES = build_leases_path(RUN_LEASE.namespace)
# What is promised for a manifest that was written anew.
MINUTE = 60.0


class Host:
    """One host as kubeadm leaves it, and the programs that run there."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox, self.root, self.port = sandbox, folder / "root", free_port()
        scheduler = find_binaries(os.environ, cache_dir=find_cache_dir(os.environ), report=print).kube_scheduler
        make_root(self.root, scheduler, sandbox.paths.build_kubeconfig_path("kube-scheduler"), self.port)
        self.pod = StaticPod(NODE, self.root, self.port, load_connection(sandbox.kubeconfig), Down())
        self.manifest = self.root / "etc/kubernetes/manifests/kube-scheduler.yaml"
        self.spec = folder / "spec.json"
        # The role's defaults, but for the wait: here all is on one busy machine.
        self.spec.write_text(json.dumps({"extender": {"url_prefix": "http://127.0.0.1:32766"}, "timeout": 120}))

    @contextlib.contextmanager
    def kept(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the keeper as its pod does."""
        command = [sys.executable, "-m", "accelkit", "scheduler-keeper", "--spec", self.spec, "--root", self.root]
        process = subprocess.Popen([*command, "--node", NODE, "--kubeconfig", self.sandbox.kubeconfig])
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()

    def is_switched(self) -> bool:
        return "/etc/kubernetes/accelkit/" in self.manifest.read_text()

    async def switched(self, within: float) -> bool:
        deadline = time.monotonic() + within
        while not self.is_switched() and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
        return self.is_switched()

    def upgrade(self, version: str) -> None:
        """Put another manifest in place as `kubeadm upgrade` does: whole, and without what others made of it."""
        write_atomically(self.manifest, MANIFEST.format(port=self.port).replace("v1.34.4", version).encode())

    def remove(self) -> None:
        given = {"node": NODE, **json.loads(self.spec.read_text())}
        command = ["config-manager", "remove", "--spec", str(self.spec), "--root", str(self.root)]
        self.spec.write_text(json.dumps(given))
        self.sandbox.command(*command, "--kubeconfig", str(self.sandbox.kubeconfig))


@pytest.fixture
def host(control_plane, tmp_path):
    if os.geteuid() != 0 or not shutil.which("ldd"):
        pytest.skip("a host is a root folder, entered by chroot, with the libraries that ldd names")
    host = Host(control_plane, tmp_path)
    host.pod.start()
    try:
        wait_for(host.pod.healthy, "kube-scheduler is not healthy")
        yield host
    finally:
        host.pod.end()


async def events(api: ApiClient, sandbox: Sandbox) -> list[str]:
    found = (await Cluster(api, sandbox).get("/api/v1/namespaces/kube-system/events"))["items"]
    mine = [each for each in found if each["involvedObject"]["name"] == f"kube-scheduler-{NODE}"]
    return [each["reason"] for each in mine if each["source"]["component"] == "accelkit-scheduler-keeper"]


async def test_keeper_switches_rewritten_manifest_within_one_minute(host):
    before = read_files(host.root)
    # As the mounts of the keeper's pod make them on a node that is new.
    for folder in ("etc/kubernetes/accelkit", "var/lib/accelkit/backup"):
        (host.root / folder).mkdir(parents=True)
    async with ApiClient(load_connection(host.sandbox.kubeconfig)) as api:
        lease = build_object_path(LEASES, RUN_LEASE.name)
        with host.kept():
            assert await host.switched(MINUTE), "a new node"
            switched = ["SchedulerSwitched"].__eq__
            await until(lambda: events(api, host.sandbox), accept=switched, seconds=MINUTE, every=0.5)
            host.upgrade("v1.35.0")
            assert await host.switched(MINUTE), "after an upgrade"
            assert "v1.35.0" in host.manifest.read_text()
            await until(lambda: events(api, host.sandbox), accept=lambda found: len(found) >= 2, seconds=MINUTE)
            # A run of the playbooks is not disturbed, and what it leaves is seen to after it.
            spec = {"holderIdentity": "alice@laptop", "leaseDurationSeconds": 3600}
            await api.post(LEASES, {"metadata": {"name": RUN_LEASE.name}, "spec": spec})
            host.upgrade("v1.35.1")
            assert not await host.switched(35)
            await delete_if_present(api, lease)
            assert await host.switched(MINUTE), "after a run"
            await until(lambda: events(api, host.sandbox), accept=lambda found: len(found) >= 3, seconds=MINUTE)
    host.remove()
    after = read_files(host.root)
    manifest = "etc/kubernetes/manifests/kube-scheduler.yaml"
    assert host.manifest.read_text() == MANIFEST.format(port=host.port).replace("v1.34.4", "v1.35.1")
    assert {**after, manifest: None} == {**before, manifest: None}
