import hashlib
import json

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError, ConfigurationError
from accelkit.install.node_discovery import DiscoveryPod, DriverReach, Findings, find_cards
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


async def test_cards_are_counted_per_node_and_pods_are_deleted():
    api = Api({"a": json.dumps({"cards": [{}, {}]}), "b": '{"cards": []}'})
    assert await find_cards(api, ["a", "b"], POD, seconds=5) == Findings({"a": 2, "b": 0})
    assert api.objects == {}


async def test_missing_drivers_and_library_problems_are_reported():
    libraries = {"nvidia": [{"name": "y", "state": "missing", "reason": "it is nowhere"}, {"name": "z", "reason": ""}]}
    lacks = {"cards": [{}], "missing": ["card x is without a driver"], "libraries": libraries}
    api = Api({"a": json.dumps(lacks), "b": '{"cards": [{}]}'})
    found = await find_cards(api, ["a", "b"], POD, seconds=5)
    assert found == Findings({"a": 1, "b": 1}, {"a": lacks["missing"]}, {"a": ["library y of nvidia: it is nowhere"]})


async def test_discovery_pod_mounts_host_read_only_without_api_token():
    api = Api({"a": '{"cards": []}'})
    await find_cards(api, ["a"], POD, seconds=5)
    [pod] = api.created
    [container] = pod["spec"]["containers"]
    assert pod["spec"]["nodeName"] == "a"
    assert pod["spec"]["automountServiceAccountToken"] is False
    # A process of the agents' own user would be open to them, mounts and all.
    assert (pod["spec"]["securityContext"]["runAsUser"], pod["spec"]["securityContext"]["runAsNonRoot"]) == (
        65532,
        True,
    )
    assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert container["image"] == "image:1"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container["env"]
    assert container["args"] == ["--log-level", "error", "discover", "--host-root", "/host", "-o", "json"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    places = {volume["name"]: volume["hostPath"]["path"] for volume in pod["spec"]["volumes"]}
    seen = {mount["mountPath"]: places[mount["name"]] for mount in container["volumeMounts"]}
    assert seen == {f"/host{path}": path for path in ("/sys", "/proc", "/dev", "/etc", "/usr")}


async def test_discovery_pod_mounts_paths_below_host_root_of_node_agents():
    api = Api({"a": '{"cards": []}'})
    await find_cards(api, ["a"], DiscoveryPod("accelkit", "image:1", host_root="/tree/"), seconds=5)
    places = {volume["name"]: volume["hostPath"]["path"] for volume in api.created[0]["spec"]["volumes"]}
    assert places == {
        **{name: f"/tree/{name}" for name in ("sys", "dev", "etc")},
        "driver": "/tree/usr",
        "proc": "/proc",
    }


REACH = DriverReach("/run/nvidia/driver", "nvidia", ("management.nvidia.com/gpu=all",), privileged=True)
REACHING = DiscoveryPod("accelkit", "image:1", reach=REACH)


async def test_nodes_with_cards_are_examined_again_with_driver_access():
    api = Api({"a": '{"cards": [{}]}', "b": '{"cards": []}'})
    assert (await find_cards(api, ["a", "b"], REACHING, seconds=5)).counts == {"a": 1, "b": 0}
    assert sorted(pod["spec"]["nodeName"] for pod in api.created) == ["a", "a", "b"]
    plain, pod = (each for each in api.created if each["spec"]["nodeName"] == "a")
    assert "runtimeClassName" not in plain["spec"]
    assert "privileged" not in plain["spec"]["containers"][0]["securityContext"]
    [container] = pod["spec"]["containers"]
    assert pod["spec"]["runtimeClassName"] == "nvidia"
    assert pod["metadata"]["annotations"] == {"nvidia.cdi.k8s.io/container.discover": "management.nvidia.com/gpu=all"}
    assert container["securityContext"] == {"readOnlyRootFilesystem": True, "privileged": True}
    places = {volume["name"]: volume["hostPath"]["path"] for volume in pod["spec"]["volumes"]}
    seen = {mount["mountPath"]: places[mount["name"]] for mount in container["volumeMounts"]}
    assert seen["/host/run/nvidia/driver"] == "/run/nvidia/driver"
    assert "/host/usr" not in seen


async def test_result_with_driver_access_replaces_first_result():
    silent = {"cards": [{}], "libraries": {"nvidia": [{"name": "y", "reason": "it has no device nodes"}]}}

    class Handler(Api):
        def _run(self, request):
            for pod in self.objects.values():
                self.logs["a"] = '{"cards": [{}]}' if "runtimeClassName" in pod["spec"] else json.dumps(silent)
            super()._run(request)

    plain = await find_cards(Handler({"a": ""}), ["a"], POD, seconds=5)
    assert plain.library_problems == {"a": ["library y of nvidia: it has no device nodes"]}
    assert (await find_cards(Handler({"a": ""}), ["a"], REACHING, seconds=5)).library_problems == {}


async def test_node_without_runtime_handler_is_reported_and_its_cards_count():
    class NoHandler(Api):
        def _run(self, request):
            for pod in self.objects.values():
                self.statuses["a"] = {"phase": "Pending" if "runtimeClassName" in pod["spec"] else "Succeeded"}
            super()._run(request)

    found = await find_cards(NoHandler({"a": '{"cards": [{}]}'}), ["a"], REACHING, seconds=0.05)
    sentence = (
        "discovery with the driver access of node agents failed: its pod did not finish before the deadline: Pending"
    )
    assert found == Findings({"a": 1}, library_problems={"a": [sentence]})


@pytest.mark.parametrize(
    ("log", "status", "sentence"),
    [
        ("Traceback", None, "its pod did not print a list of cards: Traceback"),
        ("", None, "its pod did not print a list of cards: its log is empty"),
        (
            "",
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "not there"}}}]},
            "its pod cannot pull its image: not there",
        ),
        ("", {"phase": "Pending"}, "its pod did not finish before the deadline: Pending"),
    ],
)
async def test_failure_on_one_node_is_reported_beside_results_of_other_nodes(log, status, sentence):
    api = Api({"a": log, "b": '{"cards": [{}]}'}, {"a": status} if status else {})
    found = await find_cards(api, ["a", "b"], POD, seconds=0.05)
    assert (found.counts, found.problems) == ({"b": 1}, {"a": sentence})
    assert api.objects == {}


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ({"phase": "Failed", "reason": "OutOfpods", "message": "Pod was rejected: Too many pods"}, "Too many pods"),
        ({"phase": "Failed"}, "container has not started"),
    ],
)
async def test_pod_rejected_by_kubelet_is_reported_beside_results_of_other_nodes(status, sentence):
    # As on a node that a tenant has filled with pods.
    api = Api({"a": "", "b": '{"cards": [{}]}'}, {"a": status})
    name = hashlib.sha256(b"a").hexdigest()[:10]
    api.fail(ApiError("the container has not started", status=400), "GET", f"{name}/log")
    found = await find_cards(api, ["a", "b"], POD, seconds=5)
    assert found.counts == {"b": 1}
    assert found.problems["a"].startswith("its pod has no log: ")
    assert sentence in found.problems["a"]


async def test_refused_pod_creation_is_an_error_and_leaves_no_pods():
    api = Api({"a": '{"cards": []}'})
    api.fail(ApiError("pods is forbidden", status=403), "POST")
    with pytest.raises(ApiError, match="forbidden"):
        await find_cards(api, ["a"], POD, seconds=5)
    assert api.objects == {}


@pytest.mark.parametrize(
    ("status", "error", "sentence"),
    [
        (
            403,
            ConfigurationError,
            'of node agents: RuntimeClass "nvidia" not found; specify an existing RuntimeClass',
        ),
        (500, ApiError, 'RuntimeClass "nvidia" not found'),
    ],
)
async def test_missing_runtime_class_is_an_error(status, error, sentence):
    api = Api({"a": '{"cards": [{}]}'})

    def refuse(request):
        if request.method == "POST" and "runtimeClassName" in request.body["spec"]:
            raise ApiError('RuntimeClass "nvidia" not found', status=status)

    api.before.append(refuse)
    with pytest.raises(error, match=sentence):
        await find_cards(api, ["a"], REACHING, seconds=5)
    assert api.objects == {}
