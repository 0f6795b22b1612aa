from __future__ import annotations

import json

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.install.node_discovery import DiscoveryPod, find_cards
from accelkit.kube import objects as kube_objects
from accelkit.kube import pods as kube_pods

POD = DiscoveryPod("accelkit", "image:1", ("pull",))


class Api(FakeApi):
    """An API server whose kubelets end pods at once, with the log of their node."""

    def __init__(self, logs, statuses=None):
        super().__init__()
        self.logs, self.statuses, self.created = logs, statuses or {}, []
        self.before.append(self._run)

    def _run(self, request):
        if request.method == "POST":
            self.created.append(request.body)
        for path, pod in self.objects.items():
            node = pod["spec"]["nodeName"]
            pod["status"] = self.statuses.get(node, {"phase": "Succeeded"})
            self.documents[f"{path}/log"] = self.logs[node].encode()


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(kube_pods, "POLL_SECONDS", 0)
    monkeypatch.setattr(kube_objects, "POLL_SECONDS", 0)


async def test_cards_are_counted_on_each_node_and_nothing_stays():
    api = Api({"a": json.dumps({"cards": [{}, {}]}), "b": '{"cards": []}'})
    assert await find_cards(api, ["a", "b"], POD, seconds=5) == ({"a": 2, "b": 0}, {})
    assert api.objects == {}


async def test_a_pod_reads_its_host_and_nothing_of_the_cluster():
    api = Api({"a": '{"cards": []}'})
    await find_cards(api, ["a"], POD, seconds=5)
    [pod] = api.created
    [container] = pod["spec"]["containers"]
    assert pod["spec"]["nodeName"] == "a"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert container["image"] == "image:1"
    assert container["args"] == ["--log-level", "error", "discover", "--host-root", "/host", "-o", "json"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/host/sys", "/host/proc", "/host/dev"]
    paths = [volume["hostPath"]["path"] for volume in pod["spec"]["volumes"]]
    assert paths == ["/sys", "/proc", "/dev"]


@pytest.mark.parametrize(
    ("log", "status", "sentence"),
    [
        ("Traceback", None, "its pod gave no list of cards: Traceback"),
        ("", None, "its pod gave no list of cards: it printed nothing"),
        (
            "",
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "not there"}}}]},
            "its pod cannot have its image: not there",
        ),
        ("", {"phase": "Pending"}, "its pod did not end in time: Pending"),
    ],
)
async def test_what_is_not_known_of_one_node_is_told_beside_the_others(log, status, sentence):
    api = Api({"a": log, "b": '{"cards": [{}]}'}, {"a": status} if status else {})
    counts, problems = await find_cards(api, ["a", "b"], POD, seconds=0.05)
    assert (counts, problems) == ({"b": 1}, {"a": sentence})
    assert api.objects == {}


async def test_a_refused_pod_is_an_error_and_nothing_stays():
    api = Api({"a": '{"cards": []}'})
    api.fail(ApiError("pods is forbidden", status=403), "POST")
    with pytest.raises(ApiError, match="forbidden"):
        await find_cards(api, ["a"], POD, seconds=5)
    assert api.objects == {}
