"""Facts are read from the API server, the kubelets and the extender; what is silent is told from what is wrong."""

import itertools
import json

import pytest
from faults import check_cluster
from faults.check_cluster import find_overdue
from faults.clusters import open_ledger
from faults.reading import Reader, UnreadableError, open_api

NODE = {
    "metadata": {"name": "node-1", "annotations": {"accelkit.io/inventory": '{"unit_bytes": 1, "cards": []}'}},
    "status": {},
}
OTHER = {"metadata": {"name": "node-2"}}
POD = {
    "metadata": {"namespace": "default", "name": "a", "uid": "u"},
    "spec": {
        "nodeName": "node-1",
        "containers": [{"name": "main", "resources": {"limits": {"accelkit.io/memory": "1"}}}],
    },
    "status": {"phase": "Running"},
}
EMPTY = b'{"Data": {"PodDeviceEntries": null}}'
GIVEN = {"PodUID": "u", "ContainerName": "main", "ResourceName": "accelkit.io/memory", "DeviceIDs": {"-1": ["x::0"]}}


class Api:
    def __init__(self, **items):
        self.items = {"/api/v1/nodes": items.get("nodes", [NODE, OTHER]), "/api/v1/pods": items.get("pods", [])}
        self.asked = []

    def get(self, path):
        self.asked.append(path)
        return {"items": self.items[path]}

    def ask(self, method, path, body=None, headers=None):
        self.asked.append((method, path, headers or body))
        return {"status": {"token": "t"}} if method == "POST" else {"nodes": []}


def read_nothing(_node):
    return EMPTY


def answer_nothing():
    return {"nodes": []}


def refuse(*_):
    raise UnreadableError("no answer")


def test_reader_reads_kubelets_of_card_nodes_before_pods():
    api, order = Api(pods=[POD]), []

    def kubelet(node):
        order.append((node, list(api.asked)))
        return json.dumps({"Data": {"PodDeviceEntries": [GIVEN]}}).encode()

    facts = Reader(api, kubelet, answer_nothing).read()
    assert order == [("node-1", ["/api/v1/nodes"])]
    assert [pod.name for pod in facts.pods] == ["a"]
    assert facts.given == {"node-1": {"u": {"main": {"accelkit.io/memory": ("x::0",)}}}}


def test_unreachable_extender_is_a_fact_but_unreachable_kubelet_an_error():
    assert Reader(Api(), read_nothing, refuse).read().ledger is None
    with pytest.raises(UnreadableError):
        Reader(Api(), refuse, answer_nothing).read()


def test_extender_request_contains_token_with_inspect_audience():
    api = Api()
    request = {"spec": {"audiences": ["accelkit.io/inspect"], "expirationSeconds": 600}}
    assert open_ledger(api, "accelkit", "accelkit-extender")() == {"nodes": []}
    assert api.asked == [
        ("POST", "/api/v1/namespaces/accelkit/serviceaccounts/accelkit-inspector/token", request),
        (
            "GET",
            "/api/v1/namespaces/accelkit/services/https:accelkit-extender:read/proxy/inspect",
            {"X-Accelkit-Token": "t"},
        ),
    ]


@pytest.fixture
def clock(monkeypatch):
    """A clock that every sleep moves on by its seconds."""
    now = itertools.count()
    monkeypatch.setattr(check_cluster.time, "monotonic", lambda: next(now) / 4)
    monkeypatch.setattr(check_cluster.time, "sleep", lambda _seconds: None)


def test_consistent_cluster_has_no_overdue_violations(clock):
    assert find_overdue(Reader(Api(), read_nothing, answer_nothing)) == ([], 0)


def test_lasting_violation_is_reported_as_overdue(clock):
    found, pods = find_overdue(Reader(Api(pods=[POD]), read_nothing, answer_nothing))
    assert {violation.kind for violation in found} == {"not_given"}
    assert pods == 1


def test_lasting_read_error_is_raised(clock):
    with pytest.raises(UnreadableError):
        find_overdue(Reader(Api(), refuse, answer_nothing))


def test_kubeconfig_without_certificates_is_rejected(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps({"clusters": [{"cluster": {"server": "https://x"}}], "users": [{"user": {}}]}))
    with pytest.raises(UnreadableError, match="no certificates"):
        open_api(file)
