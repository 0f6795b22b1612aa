from __future__ import annotations

import json

import msgspec
import pytest

from accelkit.errors import ApiError
from accelkit.model.card import Card
from accelkit.model.label_record import LABELS_ANNOTATION
from accelkit.node.labels import NodeLabels
from accelkit.node.labels.node_labels import NFD_API

CARD = Card("a", "simulated", "m", 2**30)
GROUP = f"/apis/{NFD_API}"
FEATURES = f"{GROUP}/namespaces/accelkit/nodefeatures"


class Api:
    """A node and, where NFD is installed, NodeFeature objects by name."""

    def __init__(self):
        self.labels = {"mine": "x"}
        self.annotations = {}
        self.nfd = False
        self.features = {}
        self.writes = 0
        self.refusal = None

    async def get(self, path):
        if self.refusal:
            raise self.refusal
        if path == GROUP:
            if not self.nfd:
                raise ApiError("not found", status=404)
            return b"{}"
        assert path == "/api/v1/nodes/n"
        metadata = {"name": "n", "labels": self.labels, "annotations": self.annotations, "resourceVersion": "7"}
        return msgspec.json.encode({"metadata": metadata})

    async def patch(self, path, body):
        if path.startswith(GROUP):
            name = path.rpartition("/")[2]
            if name not in self.features:
                raise ApiError("not found", status=404)
            self.features[name] = merged(self.features[name], body["spec"]["labels"])
            return
        self.writes += 1
        metadata = body["metadata"]
        if "labels" in metadata:
            assert metadata["resourceVersion"] == "7"
            self.labels = merged(self.labels, metadata["labels"])
        self.annotations = merged(self.annotations, metadata["annotations"])

    async def post(self, path, body):
        assert path == FEATURES
        assert body["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"] == "n"
        self.features[body["metadata"]["name"]] = body["spec"]["labels"]


def merged(old, new):
    return {key: value for key, value in {**old, **new}.items() if value is not None}


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def labels(api, tmp_path):
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("6.1.0\n")
    return NodeLabels(api, "n", "accelkit", tmp_path, clock=iter(range(0, 10**6, 100)).__next__)


async def test_without_nfd_labels_and_their_record_are_written_in_one_patch(api, labels):
    await labels.update([CARD])
    assert api.labels["accelkit.io/cards.count"] == "1"
    assert api.labels["feature.node.kubernetes.io/kernel-version.major"] == "6"
    assert json.loads(api.annotations[LABELS_ANNOTATION]) == {k: v for k, v in api.labels.items() if k != "mine"}
    await labels.update([CARD])
    assert api.writes == 1


async def test_with_nfd_it_is_asked_to_write_them(api, labels):
    api.nfd = True
    await labels.update([CARD])
    assert api.labels["accelkit.io/cards.count"] == "1"
    assert not [key for key in api.labels if key.startswith("feature.")]
    assert api.features["n"]["feature.node.kubernetes.io/kernel-version.major"] == "6"
    assert not [key for key in api.features["n"] if not key.startswith("feature.")]
    recorded = json.loads(api.annotations[LABELS_ANNOTATION])
    assert recorded == {**api.features["n"], **{k: v for k, v in api.labels.items() if k != "mine"}}
    writes = api.writes
    await labels.update([CARD])
    assert api.writes == writes


async def test_a_label_that_somebody_else_has_set_is_not_asked_for(api, labels):
    api.nfd = True
    api.labels["feature.node.kubernetes.io/kernel-version.major"] = "5"
    await labels.update([CARD])
    assert "feature.node.kubernetes.io/kernel-version.major" not in api.features["n"]


async def test_what_is_not_there_any_more_is_not_asked_for(api, labels, tmp_path):
    api.nfd = True
    await labels.update([CARD])
    (tmp_path / "proc/sys/kernel/osrelease").write_text("none\n")
    for _ in range(3):
        await labels.update([CARD])
    assert list(api.features["n"]) == ["feature.node.kubernetes.io/kernel-version.full"]


async def test_labels_are_looked_at_once_a_minute(api, tmp_path):
    times = iter([0, 59, 60, 60])
    labels = NodeLabels(api, "n", "", tmp_path, clock=times.__next__)
    await labels.update([CARD])
    api.labels = {}
    await labels.update([CARD])
    assert api.labels == {}
    await labels.update([CARD])
    assert api.labels["accelkit.io/cards.count"] == "1"


async def test_what_the_api_server_refuses_is_said_once(api, labels, caplog):
    api.refusal = ApiError("away")
    for _ in range(2):
        await labels.update([CARD])
    assert [record.message for record in caplog.records] == ["the labels of this node could not be written: away"]
