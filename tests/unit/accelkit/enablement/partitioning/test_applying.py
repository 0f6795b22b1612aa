import asyncio

import pytest

from accelkit.enablement.partitioning.applying import Partition, apply_partition, remove_partition
from accelkit.errors import AccelkitError, ApiError, ConfigurationError, ServiceError
from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.keys import PARTITIONING_ANNOTATION

MEMORY = "accelkit.io/memory"
HARD = Partition(taints=(MEMORY,))


def node(name, *, share="true", **labels):
    shown = {"zone": "a", **({"accelkit.io/share": share} if share else {}), **labels}
    metadata = {"name": name, "labels": shown, "annotations": {"other": "kept"}, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"podCIDR": "10.0.0.0/24"}}


@pytest.fixture
def api(api):
    for each in (node("a"), node("b"), node("plain", share="")):
        api.store(NODES, each)
    return api


def taints(api, name):
    return [each["key"] for each in api.objects[build_node_path(name)]["spec"].get("taints") or []]


async def test_each_shared_node_is_tainted_by_one_request(api):
    applied = await apply_partition(api, HARD)
    assert applied.tainted == ("a", "b")
    assert {name: taints(api, name) for name in ("a", "b", "plain")} == {"a": [MEMORY], "b": [MEMORY], "plain": []}
    assert [request.method for request in api.writes] == ["PATCH", "PATCH"]
    again = await apply_partition(api, HARD)
    assert not again.changed
    assert len(api.writes) == 2


async def test_named_nodes_are_tainted_instead_of_shared_nodes(api):
    await apply_partition(api, Partition(taints=(MEMORY,), tainted=("plain",)))
    assert (taints(api, "a"), taints(api, "plain")) == ([], [MEMORY])


async def test_removal_restores_nodes(api):
    before = {path: {**each, "metadata": {**each["metadata"]}} for path, each in api.objects.items()}
    await apply_partition(api, Partition(taints=(MEMORY,), roles={"training": ["a"]}, pools={"big": ["plain"]}))
    assert PARTITIONING_ANNOTATION in api.objects[build_node_path("plain")]["metadata"]["annotations"]
    assert (await remove_partition(api)).changed
    for path, each in before.items():
        now = api.objects[path]
        assert {key: now["metadata"][key] for key in ("labels", "annotations")} == {
            key: each["metadata"][key] for key in ("labels", "annotations")
        }
        assert {key: value for key, value in now["spec"].items() if value} == each["spec"]
    assert not (await remove_partition(api)).changed


async def test_check_mode_reports_changes_without_writing(api):
    applied = await apply_partition(api, HARD, check=True)
    assert applied.after == dict.fromkeys(("a", "b"), (f"taint {MEMORY}=accelkit:NoSchedule",))
    assert api.writes == []


async def test_label_conflict_is_reported_before_any_node_is_changed(api):
    api.store(NODES, node("b", **{"accelkit.io/role": "theirs"}))
    with pytest.raises(ConfigurationError, match=r"LabelOfAnother: node b has .*; remove that label"):
        await apply_partition(api, Partition(taints=(MEMORY,), roles={"training": ["a", "b"]}))
    assert api.writes == []


async def test_unreadable_record_does_not_prevent_removal_from_other_nodes(api):
    await apply_partition(api, HARD)
    api.objects[build_node_path("a")]["metadata"]["annotations"][PARTITIONING_ANNOTATION] = "{"
    with pytest.raises(ConfigurationError, match="of node a"):
        await remove_partition(api)
    assert (taints(api, "a"), taints(api, "b")) == ([MEMORY], [])


async def test_taint_added_by_another_client_during_update_is_kept(api):
    theirs = {"key": "theirs", "effect": "NoExecute"}

    def meddle(request):
        if request.method == "PATCH" and request.path == build_node_path("a") and len(api.writes) <= 2:
            each = api.objects[request.path]
            each["spec"]["taints"] = [theirs]
            each["metadata"]["resourceVersion"] = str(int(each["metadata"]["resourceVersion"]) + 1)

    api.before.append(meddle)
    await apply_partition(api, HARD)
    assert taints(api, "a") == ["theirs", MEMORY]


async def test_node_that_changes_too_often_is_reported(api):
    def meddle(request):
        if request.method == "PATCH":
            metadata = api.objects[request.path]["metadata"]
            metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    api.before.append(meddle)
    with pytest.raises(ServiceError, match="it changes too often"):
        await apply_partition(api, HARD)


@pytest.mark.parametrize("status", [409, 422])
async def test_failed_write_to_one_node_does_not_affect_other_nodes(api, status):
    others = [f"n{number}" for number in range(40)]
    for name in others:
        api.store(NODES, node(name))
    await apply_partition(api, HARD)
    api.fail(ApiError("no", status=status, reason="Conflict"), "PATCH", build_node_path("a"), times=None)
    # The others' answers come when its own is long there.
    api.before.append(lambda request: asyncio.sleep(0 if request.path.endswith("/a") else 0.01))
    with pytest.raises(AccelkitError, match=r"no|faster"):
        await remove_partition(api)
    assert [name for name in ("a", "b", *others) if taints(api, name)] == ["a"]
