"""Settings that other tests leave alone, in one installation: the second scheduler, adoption, a policy, one node."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import REPOSITORY, Cluster, Sandbox, ansible_playbook
from ports import free_port
from test_gcushare_adoption import secret, stored

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_secrets_path
from accelkit.sandbox.binaries import find_binaries, find_cache_dir

pytestmark = [pytest.mark.integration, pytest.mark.extended, pytest.mark.timeout(900)]

SCHEDULER = "accelkit-scheduler"
ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
SETTINGS = {
    "accelkit_mode": "second-scheduler",
    "accelkit_policy": "spread",
    "accelkit_shared_nodes": ["node-1"],
    "accelkit_adopt_gcushare": True,
    "accelkit_purge_logs": True,
    # The sandbox's extender has no Service.
    "second_scheduler_extender_url": "{{ __sandbox.extender_url }}",
}
# Under its pod's name, and seeing nothing but its pod's files.
ENTER = 'hostname "$1" && shift && exec chroot "$@"'


@pytest.fixture
def sandbox():
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    with Sandbox() as sandbox:
        yield sandbox


class Stage:
    """The sandbox, and an inventory without a control-plane host; its node has its logs in a folder of the test."""

    def __init__(self, sandbox: Sandbox, api: ApiClient, folder: Path) -> None:
        self.sandbox, self.folder, self.cluster = sandbox, folder, Cluster(api, sandbox)
        self.scheduler = find_binaries(os.environ, cache_dir=find_cache_dir(os.environ), report=print).kube_scheduler
        self.logs = folder / "logs"
        node = {"device_plugin_log_folder": str(self.logs)}
        groups = {"accelkit_api": {"hosts": {"sandbox": {}}}, "accelkit_nodes": {"hosts": {"node-1": node}}}
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        (folder / "inventory").mkdir()
        (folder / "inventory/hosts.json").write_text(
            json.dumps({"all": {"children": groups, "vars": {**local, **SETTINGS}}})
        )
        (folder / "inventory/group_vars").symlink_to(REPOSITORY / "inventories/sandbox/group_vars")

    def play(self, name: str) -> str:
        done = ansible_playbook(name, "-i", self.folder / "inventory", environ=self.sandbox.environ)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    async def get(self, kind: str, name: str, version: str = "v1", namespace: str = "accelkit") -> dict | None:
        path = f"{build_collection_path(version, kind, namespace)}/{name}"
        answer = await get_if_present(self.cluster.api, path)
        return None if answer is None else json.loads(answer)

    @contextlib.asynccontextmanager
    async def run_second_scheduler(self, site: asyncio.Task):
        """Run what the simulated kubelet only reports: the container of one of the second scheduler's pods.

        It is there as soon as site.yml has made the pod, which waits for it.
        """
        selector = f"labelSelector=app.kubernetes.io/name={SCHEDULER}"
        path = f"{build_collection_path('v1', 'pods', 'accelkit')}?{selector}"
        while not (pods := (await self.cluster.get(path))["items"]):
            if site.done():
                raise AssertionError(await site)
            await asyncio.sleep(0.2)
        deployment = await self.get("deployments", SCHEDULER, "apps/v1")
        configuration = (await self.get("configmaps", SCHEDULER))["data"]
        accounts = build_collection_path("v1", "serviceaccounts", "accelkit")
        answer = await self.cluster.api.post(f"{accounts}/{SCHEDULER}/token", {"spec": {}})
        connection = load_connection(self.sandbox.kubeconfig)
        root, server = self.folder / "pod", urlsplit(connection.server)
        for folder in ("bin", "etc/accelkit", ACCOUNT):
            (root / folder).mkdir(parents=True)
        shutil.copy(self.scheduler, root / "bin/kube-scheduler")
        (root / "etc/accelkit/scheduler.yaml").write_text(configuration["scheduler.yaml"])
        (root / ACCOUNT / "token").write_text(json.loads(answer)["status"]["token"])
        (root / ACCOUNT / "ca.crt").write_bytes((await self.authority()).encode())
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        # All of this machine's pods share its ports.
        command = [word for word in container["command"] if "--secure-port" not in word]
        command += [f"--secure-port={free_port()}", "--bind-address=127.0.0.1"]
        pod = pods[0]["metadata"]["name"]
        environ = {
            "PATH": "/bin",
            "KUBERNETES_SERVICE_HOST": server.hostname,
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }
        whole = [shutil.which("unshare"), "--uts", "/bin/sh", "-c", f"PATH={os.environ['PATH']}; {ENTER}", "sh"]
        with (self.folder / "second.log").open("wb") as log:
            process = subprocess.Popen([*whole, pod, root, *command], env=environ, stdout=log, stderr=log)
        try:
            yield self.folder / "second.log"
        finally:
            process.kill()
            process.wait(60)

    async def authority(self) -> str:
        found = await self.get("configmaps", "kube-root-ca.crt", namespace="default")
        return found["data"]["ca.crt"]


async def install_gcushare(api: ApiClient) -> None:
    """Put there what GCUShare's chart leaves: a release, one of its objects, and its label on a node."""
    written = {"meta.helm.sh/release-name": "plugin", "meta.helm.sh/release-namespace": "default"}
    config = {"metadata": {"name": "gcushare", "annotations": written}}
    await api.post(build_collection_path("v1", "configmaps", "default"), config)
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: gcushare\n"
    release = {"release": stored("gcushare-device-plugin", manifest)}
    await api.post(build_secrets_path("default"), secret("plugin", 1, release))
    await api.patch("/api/v1/nodes/node-1", {"metadata": {"labels": {"enflame.com/gcushare": "true"}}})


async def test_installation_with_uncommon_settings_applies_each_setting(sandbox, tmp_path):
    first = Path(sandbox.facts.scheduler_config).read_bytes()
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        stage = Stage(sandbox, api, tmp_path)
        await install_gcushare(api)
        site = asyncio.create_task(asyncio.to_thread(stage.play, "site.yml"))
        async with stage.run_second_scheduler(site) as log:
            await site
            # accelkit_adopt_gcushare
            assert await stage.get("configmaps", "gcushare", namespace="default") is None
            assert await stage.get("secrets", "sh.helm.release.v1.plugin.v1", namespace="default") is None
            labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in (await nodes(stage))}
            assert not any("enflame.com/gcushare" in of_node for of_node in labels.values())
            found = {each["metadata"]["name"]: each["metadata"].get("annotations", {}) for each in (await nodes(stage))}
            assert [name for name, of_node in found.items() if "accelkit.io/former-unit" in of_node] == ["node-1"]
            # accelkit_shared_nodes
            assert [name for name, of_node in labels.items() if "accelkit.io/share" in of_node] == ["node-1"]
            # accelkit_mode
            for name in ("one", "two"):
                await stage.cluster.create_pod(name, memory=4, node=None, schedulerName=SCHEDULER)
                try:
                    await stage.cluster.running(name)
                except AssertionError as exc:
                    raise AssertionError(log.read_text()[-4000:]) from exc
            await stage.cluster.create_pod("large", memory=20, node=None, schedulerName=SCHEDULER)
            assert "1 insufficient accelkit.io/memory in one card" in await stage.cluster.refused("large")
            assert Path(sandbox.facts.scheduler_config).read_bytes() == first
            # accelkit_policy: the emptiest card that fits
            used = [card["used_bytes"] for node in sandbox.inspect()["nodes"] for card in node["cards"]]
            assert sorted(used)[-3:] == [0, 4 * 2**30, 4 * 2**30]
            await asyncio.to_thread(stage.play, "playbooks/verify.yml")
        await stage.cluster.delete_pods()

        # accelkit_purge_logs
        stage.logs.mkdir()
        for name in ("accelkit-node-agent.log", "accelkit-extender.log.1", "of-others.log"):
            (stage.logs / name).write_text("x")
        stage.play("playbooks/remove.yml")
        assert [path.name for path in stage.logs.iterdir()] == ["of-others.log"]
        assert await stage.get("deployments", SCHEDULER, "apps/v1") is None
        assert not any("accelkit.io/share" in each["metadata"]["labels"] for each in await nodes(stage))


async def nodes(stage: Stage) -> list[dict]:
    return (await stage.cluster.get("/api/v1/nodes"))["items"]
