"""Nodes set apart on a real API server, and given back; owners of nodes on the same."""

import msgspec
import pytest

from accelkit.enablement.ownership.fate import Fate
from accelkit.enablement.ownership.survey import survey_owners
from accelkit.enablement.partitioning.admission import check_tolerations
from accelkit.enablement.partitioning.applying import Partition, apply_partition, remove_partition
from accelkit.errors import ConfigurationError
from accelkit.kube.paths import NODES, build_node_path

pytestmark = pytest.mark.integration

MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"
NAME = "partitioned"
PATH = build_node_path(NAME)
PARTITION = Partition(taints=(MEMORY,), tainted=(NAME,), roles={"training": [NAME]}, pools={"big": [NAME]})


@pytest.fixture
async def node(api):
    """A node of its own, with a taint of somebody else."""
    taint = {"key": "theirs", "value": "x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    body = {"metadata": {"name": NAME, "labels": {"zone": "a"}}, "spec": {"taints": [taint]}}
    await api.post(NODES, body)
    yield
    await api.delete(PATH)


async def read(api):
    found = msgspec.json.decode(await api.get(PATH))
    marks = {key: found["metadata"].get(key) or {} for key in ("labels", "annotations")}
    # Kubernetes writes these, and takes taints away, while the test runs.
    marks["annotations"].pop("node.alpha.kubernetes.io/ttl", None)
    taints = found["spec"].get("taints") or []
    return marks, [each for each in taints if not each["key"].startswith("node.kubernetes.io/")]


@pytest.mark.usefixtures("node")
async def test_partition_is_applied_to_node_and_removed_completely(api):
    before = await read(api)
    assert (await apply_partition(api, PARTITION)).changed
    metadata, taints = await read(api)
    assert metadata["labels"]["accelkit.io/role"] == "training"
    assert {(each["key"], each["effect"]) for each in taints} >= {("theirs", "NoExecute"), (MEMORY, "NoSchedule")}
    assert not (await apply_partition(api, PARTITION)).changed
    assert (await remove_partition(api)).changed
    assert await read(api) == before


@pytest.mark.usefixtures("node")
async def test_label_of_another_owner_is_not_overwritten(api):
    await api.patch(PATH, {"metadata": {"labels": {"accelkit.io/role": "theirs"}}})
    before = await read(api)
    with pytest.raises(ConfigurationError, match="LabelOfAnother"):
        await apply_partition(api, PARTITION)
    assert await read(api) == before


@pytest.mark.usefixtures("node")
async def test_dry_run_creates_no_pod_and_detects_disabled_admission_plugin(api):
    found = await check_tolerations(
        api, keys=[MEMORY], tainted=[NAME], resources=[MEMORY, CARDS], card_resources=[MEMORY], namespace="default"
    )
    assert found.unknown == {}
    assert found.repelled == {MEMORY: (MEMORY,), CARDS: (MEMORY,)}
    pods = msgspec.json.decode(await api.get("/api/v1/namespaces/default/pods"))["items"]
    assert "accelkit-toleration-probe" not in {each["metadata"]["name"] for each in pods}


@pytest.mark.usefixtures("node")
async def test_node_with_cards_of_another_device_plugin_is_owned(api):
    assert (await survey_owners(api, nodes=[NAME])).judgements[NAME].fate is Fate.FREE
    amounts = {"nvidia.com/gpu": "8"}
    await api.patch(f"{PATH}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
    assert (await survey_owners(api, nodes=[NAME])).judgements[NAME].fate is Fate.LEFT_ALONE
    assert (await survey_owners(api, nodes=[NAME], adopt=True)).judgements[NAME].fate is Fate.CONTESTED
