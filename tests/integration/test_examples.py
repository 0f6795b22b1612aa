"""The example manifests of GKM on a real API server that knows GKM's kinds, as accelkit defines them.

ACCELKIT_GKM_EXAMPLES names the folder `examples` of a clone of GKM, with what its generator made there or without.
"""

from __future__ import annotations

import msgspec
import pytest
from gkm_manifests import CACHE_KINDS, read_gkm_manifests

from accelkit.examples.custom import NO_CUSTOM
from accelkit.examples.example import ALL_EXAMPLES, SETS, Environment
from accelkit.examples.objects import build_objects

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

STRICT = {"fieldManager": "test", "force": "true", "fieldValidation": "Strict", "dryRun": "All"}


# Of each kind: the path below which it is, without a namespace.
PLACES = {"Pod": "/api/v1", "DaemonSet": "/apis/apps/v1", "Namespace": "/api/v1"}


@pytest.fixture
async def gkm(defined):
    """GKM's kinds are known to the cluster."""
    await defined.define()


async def names(api, path: str) -> set[str]:
    items = msgspec.json.decode(await api.get(path))["items"]
    return {each["metadata"]["name"] for each in items if each["metadata"]["name"].startswith("gkm-test-")}


async def test_deploy_without_gkm_kinds_is_refused(control_plane, api, cache_kinds):
    await cache_kinds.forget()
    done = control_plane.command("examples", "deploy", "kind", check=False)
    assert done.returncode == 1
    assert "does not serve ClusterGKMCache and GKMCache of gkm.io/v1alpha1" in done.stderr
    assert await names(api, "/api/v1/namespaces") == set()


@pytest.mark.extended
@pytest.mark.usefixtures("gkm")
async def test_example_set_for_kind_is_deployed_and_undeployed(control_plane, api):
    created = control_plane.command("examples", "deploy", "kind").stdout.splitlines()
    assert len(created) == len({*created}) == 4 * (1 + 3) + 6
    assert {line.split()[0] for line in created} == {"created"}
    assert len(await names(api, "/api/v1/pods")) >= 6
    assert len(await names(api, "/apis/apps/v1/daemonsets")) == 6
    assert len(await names(api, "/apis/gkm.io/v1alpha1/gkmcaches")) == 2
    assert len(await names(api, "/apis/gkm.io/v1alpha1/clustergkmcaches")) == 2

    again = control_plane.command("examples", "deploy", "kind").stdout.splitlines()
    assert {line.split()[0] for line in again} == {"unchanged"}

    gone = control_plane.command("examples", "undeploy", "kind").stdout.splitlines()
    assert {line.split()[0] for line in gone} == {"deleted"}
    for path in ("/api/v1/namespaces", "/api/v1/pods", "/apis/gkm.io/v1alpha1/clustergkmcaches"):
        assert await names(api, path) == set()
    absent = control_plane.command("examples", "undeploy", "kind").stdout.splitlines()
    assert {line.split()[0] for line in absent} == {"absent"}


@pytest.mark.extended
@pytest.mark.usefixtures("gkm")
async def test_undeploy_reports_finalizer_of_gkm_after_timeout(control_plane, api):
    control_plane.command("examples", "deploy", "nfd-cuda")
    cache = "/apis/gkm.io/v1alpha1/clustergkmcaches/gkm-test-obj-rwo-cl-cuda-v3"
    finalizer = "gkm.io.clustergkmcachenode/finalizer"
    await api.patch(cache, {"metadata": {"finalizers": [finalizer]}})
    done = control_plane.command("examples", "undeploy", "nfd-cuda", "--timeout", "8", check=False)
    assert done.returncode == 1
    assert f"ClusterGKMCache gkm-test-obj-rwo-cl-cuda-v3 waits for {finalizer}" in done.stderr
    await api.patch(cache, {"metadata": {"finalizers": None}})
    control_plane.command("examples", "undeploy", "nfd-cuda")
    assert await names(api, "/api/v1/namespaces") == set()


@pytest.mark.usefixtures("gkm")
async def test_api_server_accepts_each_example_unchanged(api):
    taken = {await take(api, item) for example in ALL_EXAMPLES for item in build_objects(example, NO_CUSTOM)}
    assert taken == {"Namespace", "Pod", "DaemonSet", "GKMCache", "ClusterGKMCache"}


async def take(api, item: dict) -> str:
    """Have the API server apply an object strictly, without storing it; return its kind."""
    # A dry run knows no namespace that it made, so the default one stands for it.
    metadata = {**item["metadata"], "namespace": "default"} if "namespace" in item["metadata"] else item["metadata"]
    root = PLACES.get(item["kind"], "/apis/gkm.io/v1alpha1")
    folder = f"{root}/namespaces/default" if "namespace" in metadata else root
    path = f"{folder}/{item['kind'].lower()}s/{metadata['name']}"
    await api.patch(path, {**item, "metadata": metadata}, kind="apply", query=STRICT)
    return item["kind"]


@pytest.mark.usefixtures("gkm")
async def test_api_server_accepts_gkm_manifests_unchanged(api):
    taken = {await take(api, item) for item in read_gkm_manifests()}
    assert taken & CACHE_KINDS


@pytest.mark.extended
@pytest.mark.usefixtures("gkm")
async def test_playbook_generates_deploys_and_removes_examples(control_plane, api, tmp_path):
    def play(state: str, *arguments: str, check: bool = True) -> str:
        chosen = ("-e", "accelkit_examples_set=nfd-rocm", "-e", f"accelkit_examples_state={state}")
        folder = ("-e", f"accelkit_examples_output={tmp_path}")
        return control_plane.playbook("playbooks/examples.yml", *chosen, *folder, *arguments, check=check).stdout

    files = {each.file_name for each in SETS["nfd-rocm"]}
    assert SETS["nfd-rocm"][0].environment is Environment.NFD
    assert "changed=1" in play("generated", "--check", "--diff")
    assert [*tmp_path.iterdir()] == []
    play("generated")
    assert {path.name for path in tmp_path.iterdir()} == files
    assert "changed=1" in play("deployed", "--check")
    assert await names(api, "/api/v1/namespaces") == set()
    assert "created Namespace gkm-test-ns-1-rwo-ns-rocm-v2" in play("deployed", "--diff")
    assert "changed=0" in play("deployed")
    await waits_for_caches(api, play)
    assert "changed=1" in play("undeployed")
    assert "changed=0" in play("undeployed")
    assert "changed=1" in play("absent")
    assert [*tmp_path.iterdir()] == []
    assert await names(api, "/api/v1/namespaces") == set()


async def waits_for_caches(api, play) -> None:
    """They become ready, as a controller would say; before that it fails with what is known."""
    wait = ("-e", "accelkit_examples_wait=true")
    said = play("deployed", *wait, "-e", "accelkit_examples_timeout=3", check=False)
    assert "is not ready after 3 s: the cache controller has not processed it yet" in " ".join(said.split())
    caches = [
        "/apis/gkm.io/v1alpha1/namespaces/gkm-test-ns-1-rwo-ns-rocm-v2/gkmcaches/gkm-test-obj-rwo-ns-rocm-v2",
        "/apis/gkm.io/v1alpha1/clustergkmcaches/gkm-test-obj-rwo-cl-rocm-v3",
    ]
    when = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "by a test", **when}
    for path in caches:
        await api.patch(f"{path}/status", {"status": {"observedGeneration": 1, "conditions": [ready]}})
    assert "changed=0" in play("deployed", *wait)
