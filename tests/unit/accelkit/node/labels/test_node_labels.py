import json

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kube.paths import NODES, build_collection_path, build_group_path, build_node_path, build_object_path
from accelkit.model.card import Card
from accelkit.model.keys import LABELS_ANNOTATION
from accelkit.node.labels import NodeLabels
from accelkit.node.labels.node_labels import NFD_API

CARD = Card("a", "simulated", "m", 2**30)
FEATURE = build_object_path(build_collection_path(NFD_API, "nodefeatures", "accelkit"), "n")


class Cluster:
    """A node and, where NFD is installed, its NodeFeature object."""

    def __init__(self):
        self.api = FakeApi()
        self.api.store(NODES, {"metadata": {"name": "n", "labels": {"mine": "x"}, "annotations": {}}})

    def install_nfd(self):
        self.api.documents[build_group_path(NFD_API)] = {}

    @property
    def writes(self):
        return sum(request.path == build_node_path("n") for request in self.api.writes)

    @property
    def labels(self):
        return self.api.objects[build_node_path("n")]["metadata"]["labels"]

    @property
    def recorded(self):
        return json.loads(self.api.objects[build_node_path("n")]["metadata"]["annotations"][LABELS_ANNOTATION])

    @property
    def feature(self):
        feature = self.api.objects[FEATURE]
        assert feature["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"] == "n"
        return feature["spec"]["labels"]


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def labels(cluster, tmp_path):
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("6.1.0\n")
    return NodeLabels(cluster.api, "n", "accelkit", tmp_path, clock=iter(range(0, 10**6, 100)).__next__)


async def test_labels_and_record_are_written_in_one_patch_without_nfd(cluster, labels):
    await labels.update([CARD])
    assert cluster.labels["accelkit.io/cards.count"] == "1"
    assert cluster.labels["feature.node.kubernetes.io/kernel-version.major"] == "6"
    assert cluster.recorded == {k: v for k, v in cluster.labels.items() if k != "mine"}
    await labels.update([CARD])
    assert cluster.writes == 1


async def test_feature_labels_are_written_to_node_feature_with_nfd(cluster, labels):
    cluster.install_nfd()
    await labels.update([CARD])
    assert cluster.labels["accelkit.io/cards.count"] == "1"
    assert not [key for key in cluster.labels if key.startswith("feature.")]
    assert cluster.feature["feature.node.kubernetes.io/kernel-version.major"] == "6"
    assert not [key for key in cluster.feature if not key.startswith("feature.")]
    recorded = cluster.recorded
    assert recorded == {**cluster.feature, **{k: v for k, v in cluster.labels.items() if k != "mine"}}
    writes = cluster.writes
    await labels.update([CARD])
    assert cluster.writes == writes


async def test_label_of_another_client_is_not_added_to_node_feature(cluster, labels):
    cluster.install_nfd()
    cluster.labels["feature.node.kubernetes.io/kernel-version.major"] = "5"
    await labels.update([CARD])
    assert "feature.node.kubernetes.io/kernel-version.major" not in cluster.feature


async def test_undetected_feature_label_is_removed_from_node_feature(cluster, labels, tmp_path):
    cluster.install_nfd()
    await labels.update([CARD])
    (tmp_path / "proc/sys/kernel/osrelease").write_text("none\n")
    for _ in range(3):
        await labels.update([CARD])
    assert list(cluster.feature) == ["feature.node.kubernetes.io/kernel-version.full"]


async def test_labels_are_compared_once_a_minute(cluster, tmp_path):
    times = iter([0, 59, 60, 60])
    labels = NodeLabels(cluster.api, "n", "", tmp_path, clock=times.__next__)
    await labels.update([CARD])
    cluster.labels.clear()
    await labels.update([CARD])
    assert cluster.labels == {}
    await labels.update([CARD])
    assert cluster.labels["accelkit.io/cards.count"] == "1"


async def test_api_error_is_logged_once(cluster, labels, caplog):
    cluster.api.fail(ApiError("away"), times=None)
    for _ in range(2):
        await labels.update([CARD])
    assert [record.message for record in caplog.records] == ["cannot write the labels of this node: away"]


async def test_node_changed_during_update_is_not_overwritten(cluster, labels, caplog):
    cluster.api.after.append(lambda request: cluster.labels.update(other="y") if request.method == "GET" else None)
    await labels.update([CARD])
    assert cluster.labels == {"mine": "x", "other": "y"}
    assert "cannot write the labels of this node: the resourceVersion is" in caplog.text
