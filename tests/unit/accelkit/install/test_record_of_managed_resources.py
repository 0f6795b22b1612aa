"""The record of managed resources: what is written, and what is not wanted any more."""

import json

import pytest
from fake_api.server import FakeApi

from accelkit.install.managed_resources import delete_record, record_managed
from accelkit.kube.paths import NODES
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION

NAMESPACE = "accelkit"
FOLDER = "/api/v1/namespaces/accelkit/configmaps"
RECORD = f"{FOLDER}/accelkit-managed-resources"
NATIVE = ["accelkit.io/memory", "accelkit.io/cards"]
GCUSHARE = ["enflame.com/gcu-memory", "enflame.com/gcu-count"]


def cluster(*nodes, schedulers=("cp-1",), recorded=None):
    api = FakeApi()
    for name, allocatable, advertised in nodes:
        annotations = {"accelkit.io/advertised": ",".join(advertised)} if advertised else {}
        api.store(
            NODES, {"metadata": {"name": name, "annotations": annotations}, "status": {"allocatable": allocatable}}
        )
    for node in schedulers:
        metadata = {"name": f"kube-scheduler-{node}", "namespace": "kube-system"}
        api.store("/api/v1/pods", {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}})
    other = {"name": "kube-proxy-x", "namespace": "kube-system"}
    api.store("/api/v1/pods", {"metadata": other, "spec": {"nodeName": "x"}, "status": {"phase": "Running"}})
    if recorded is not None:
        text = recorded if isinstance(recorded, str) else json.dumps({"version": 1, "resources": sorted(recorded)})
        metadata = {"name": "accelkit-managed-resources", "namespace": NAMESPACE}
        api.store(FOLDER, {"metadata": metadata, "data": {"managed.json": text}})
    return api


def read(api):
    return json.loads(api.objects[RECORD]["data"]["managed.json"])["resources"]


async def record(api, resources=NATIVE, **given):
    return await record_managed(api, namespace=NAMESPACE, resources=resources, **{"schedulers": ["cp-1"], **given})


async def test_record_is_written_once_with_accelkit_label():
    api = cluster()
    assert (await record(api)).changed
    assert read(api) == sorted(NATIVE)
    assert api.objects[RECORD]["metadata"]["labels"]["app.kubernetes.io/part-of"] == "accelkit"
    assert not (await record(api)).changed
    assert len(api.writes) == 1 + 1, "a patch that found nothing, and the creation"


async def test_unconfigured_scheduler_prevents_recording_of_new_resources():
    api = cluster(schedulers=["cp-1", "cp-2"], recorded=NATIVE)
    result = await record(api, [*NATIVE, *GCUSHARE])
    assert not result.changed
    assert read(api) == sorted(NATIVE)
    assert "kube-scheduler also runs on cp-2" in result.problem


async def test_incomplete_run_removes_resources_but_adds_none():
    api = cluster(recorded=[*NATIVE, "enflame.com/gcu-memory"])
    result = await record(api, ["accelkit.io/memory", "example.com/new"], complete=False)
    assert read(api) == ["accelkit.io/memory"]
    assert "without --limit" in result.problem


async def test_schedulers_are_not_compared_if_none_are_given():
    result = await record(cluster(schedulers=["cp-9"]), schedulers=None)
    assert (result.changed, result.problem) == (True, "")


async def test_check_mode_writes_nothing():
    api = cluster()
    assert (await record(api, check=True)).changed
    assert (await delete_record(api, namespace=NAMESPACE, check=True)).changed is False
    assert api.writes == []


@pytest.mark.parametrize("text", ["{", '{"version":9,"resources":[]}', ""])
async def test_unreadable_record_is_replaced(text):
    api = cluster(recorded=text)
    result = await record(api)
    assert result.recorded is None
    assert read(api) == sorted(NATIVE)


async def test_recorded_or_offered_resources_that_are_not_wanted_are_former():
    old = {"enflame.com/gcu-memory": "16", "enflame.com/gcu-count": "0", "nvidia.com/gpu": "8"}
    api = cluster(("a", old, GCUSHARE), ("b", {"accelkit.io/memory": "4"}, ()), recorded=["aliyun.com/gpu-mem"])
    result = await record(api, check=True)
    assert result.offered == {"accelkit.io/memory": ["b"], "enflame.com/gcu-memory": ["a"]}
    assert result.former == ["aliyun.com/gpu-mem", "enflame.com/gcu-memory"]
    assert {"aliyun", "gcushare"} <= set(result.former_dialects)
    assert "native" not in result.former_dialects


async def test_resources_of_another_device_plugin_are_not_former():
    assert (await record(cluster(("a", {"enflame.com/gcu-memory": "16"}, ())))).former == []


async def test_record_is_deleted():
    api = cluster(recorded=NATIVE)
    assert (await delete_record(api, namespace=NAMESPACE)).changed
    assert RECORD not in api.objects
    assert not (await delete_record(api, namespace=NAMESPACE)).changed


async def test_withheld_resource_is_not_offered():
    api = cluster(("a", {GCUSHARE[0]: "2"}, GCUSHARE), ("b", {GCUSHARE[0]: "2"}, GCUSHARE), ("c", {NATIVE[0]: "1"}, ()))
    for name, text in (
        ("a", encode_inventory(Inventory(1, (), withheld=(GCUSHARE[0],)))),
        ("b", "unreadable"),
        ("c", encode_inventory(Inventory(1, (), withheld=(GCUSHARE[0],)))),
    ):
        api.objects[f"{NODES}/{name}"]["metadata"]["annotations"][INVENTORY_ANNOTATION] = text
    result = await record(api, check=True)
    assert result.offered == {GCUSHARE[0]: ["b"], NATIVE[0]: ["c"]}
