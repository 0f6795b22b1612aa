"""The example manifests of GKM on a real API server that knows GKM's kinds."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from accelkit.errors import ApiError
from accelkit.examples.custom import NO_CUSTOM
from accelkit.examples.example import ALL_EXAMPLES, SETS, Environment
from accelkit.examples.objects import build_objects
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import get_if_present

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STRICT = {"fieldManager": "test", "force": "true", "fieldValidation": "Strict", "dryRun": "All"}


def definition(kind: str, scope: str) -> dict:
    """Return as much of GKM's definition of a kind as creating objects needs."""
    name = kind.lower()
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.gkm.io"},
        "spec": {
            "group": "gkm.io",
            "scope": scope,
            "names": {"kind": kind, "plural": f"{name}s", "singular": name, "listKind": f"{kind}List"},
            "versions": [
                {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


KINDS = [definition("GKMCache", "Namespaced"), definition("ClusterGKMCache", "Cluster")]


@pytest.fixture
async def api(control_plane):
    async with ApiClient(load_connection(control_plane.kubeconfig)) as client:
        yield client


async def until(accept, what: str) -> None:
    deadline = time.monotonic() + 60
    while not await accept():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.2)


@pytest.fixture
async def gkm(api):
    """GKM's kinds are known to the cluster, for this test."""
    for each in KINDS:
        await api.post(DEFINITIONS, each)

    async def known() -> bool:
        try:
            listed = msgspec.json.decode(await api.get("/apis/gkm.io/v1alpha1"))["resources"]
        except ApiError:
            return False
        return {"GKMCache", "ClusterGKMCache"} <= {each["kind"] for each in listed}

    async def forgotten() -> bool:
        listed = msgspec.json.decode(await api.get(DEFINITIONS))["items"]
        served = await get_if_present(api, "/apis/gkm.io/v1alpha1")
        return served is None and not [each for each in listed if each["spec"]["group"] == "gkm.io"]

    await until(known, "the API server does not serve gkm.io")
    yield
    for each in KINDS:
        await api.delete(f"{DEFINITIONS}/{each['metadata']['name']}")
    await until(forgotten, "the definitions are not gone")


async def names(api, path: str) -> set[str]:
    items = msgspec.json.decode(await api.get(path))["items"]
    return {each["metadata"]["name"] for each in items if each["metadata"]["name"].startswith("gkm-test-")}


async def test_without_gkm_nothing_is_deployed(control_plane, api):
    done = control_plane.command("examples", "deploy", "kind", check=False)
    assert done.returncode == 1
    assert "does not know ClusterGKMCache and GKMCache of gkm.io/v1alpha1, so nothing was created" in done.stderr
    assert await names(api, "/api/v1/namespaces") == set()


@pytest.mark.usefixtures("gkm")
async def test_the_set_for_kind_comes_and_goes(control_plane, api):
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


@pytest.mark.usefixtures("gkm")
async def test_a_finalizer_of_gkms_is_waited_for_and_named(control_plane, api):
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
async def test_the_api_server_takes_every_example_word_for_word(api):
    seen = set()
    for example in ALL_EXAMPLES:
        for item in build_objects(example, NO_CUSTOM):
            # A dry run knows no namespace that it made, so the default one stands for it.
            metadata = {**item["metadata"], "namespace": "default"} if "namespace" in item["metadata"] else None
            place = {"Pod": "/api/v1", "DaemonSet": "/apis/apps/v1", "Namespace": "/api/v1"}
            root = place.get(item["kind"], "/apis/gkm.io/v1alpha1")
            path = (
                f"{root}{'/namespaces/default' if metadata else ''}/{item['kind'].lower()}s/{item['metadata']['name']}"
            )
            await api.patch(path, {**item, "metadata": metadata or item["metadata"]}, kind="apply", query=STRICT)
            seen.add(item["kind"])
    assert seen == {"Namespace", "Pod", "DaemonSet", "GKMCache", "ClusterGKMCache"}


@pytest.mark.usefixtures("gkm")
async def test_the_playbook_generates_deploys_and_takes_away(control_plane, api, tmp_path):
    def play(state: str, *arguments: str) -> str:
        chosen = ("-e", "accelkit_examples_set=nfd-rocm", "-e", f"accelkit_examples_state={state}")
        folder = ("-e", f"accelkit_examples_output={tmp_path}")
        return control_plane.playbook("playbooks/examples.yml", *chosen, *folder, *arguments).stdout

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
    assert "changed=1" in play("undeployed")
    assert "changed=0" in play("undeployed")
    assert "changed=1" in play("absent")
    assert [*tmp_path.iterdir()] == []
    assert await names(api, "/api/v1/namespaces") == set()
