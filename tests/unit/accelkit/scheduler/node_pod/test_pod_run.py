import json

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError, ConfigurationError, ServiceError
from accelkit.kube import objects as kube_objects
from accelkit.kube import pods as kube_pods
from accelkit.kube.connection import Connection
from accelkit.kube.ownership import OWNER_LABELS
from accelkit.kube.paths import build_collection_path, build_pod_path
from accelkit.scheduler.arguments import LaunchSpec, PodImage, Spec
from accelkit.scheduler.node_pod import run as pod_run
from accelkit.scheduler.node_pod.objects import build_pod_name
from accelkit.scheduler.node_pod.run import compare_without_pod, run_in_pod

NAME = build_pod_name("master")
POD = build_pod_path("kube-system", NAME)
DAEMON_SETS = build_collection_path("apps/v1", "daemonsets")
AGENT_LABELS = {**OWNER_LABELS, "app.kubernetes.io/component": "node-agent"}
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
RESULT = {"changed": True, "restored": True, "problems": [], "diff": []}
SPEC = Spec(node="master", timeout=0)
IMAGE = PodImage("accelkit.io/accelkit:1")


class Api(FakeApi):
    """An API server whose kubelet ends a pod at once with this status and log."""

    def __init__(self):
        super().__init__()
        self.status = {"phase": "Succeeded"}
        self.log = json.dumps(RESULT)
        self.before.append(self._run)

    @property
    def deleted(self):
        """What was deleted, without what was not there."""
        return [request.path for request in self.done if request.method == "DELETE"]

    def _run(self, _request):
        self.documents[f"{POD}/log"] = self.log.encode()
        if POD in self.objects:
            self.objects[POD]["status"] = self.status


@pytest.fixture
def api(monkeypatch):
    monkeypatch.setattr(kube_pods, "POLL_SECONDS", 0)
    monkeypatch.setattr(kube_objects, "POLL_SECONDS", 0)
    api = Api()
    monkeypatch.setattr(pod_run, "ApiClient", lambda _connection: api)
    return api


def run(_api, action="apply", spec=SPEC, source=IMAGE):
    return run_in_pod(Connection("https://master", None), action, spec, source)


def test_result_is_last_log_line_and_all_objects_are_deleted(api):
    api.log = f"a warning\n{json.dumps(RESULT)}\n"
    assert run(api) == RESULT
    assert api.objects == {}
    assert len(api.deleted) == 5
    assert api.deleted[0] == POD, "the pod goes first, whose rights the others are"


def test_pod_of_another_run_is_not_deleted_before_it_ends(api):
    api.objects[POD] = {"metadata": {"name": NAME}}
    api.status = {"phase": "Running"}
    looked = []

    def look(request):
        if request.method == "GET" and request.path == POD:
            looked.append(len(api.deleted))
            api.status = {"phase": "Running" if len(looked) < 5 else "Succeeded"}

    api.before.append(look)
    assert run(api) == RESULT
    assert looked[:5] == [0] * 5


def test_pod_of_another_run_that_cannot_start_is_deleted(api):
    api.objects[POD] = {"metadata": {"name": NAME}}
    api.status = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "no"}}}]}

    def recover(request):
        if request.method == "DELETE":
            api.status = {"phase": "Succeeded"}

    api.before.append(recover)
    assert run(api) == RESULT


@pytest.mark.parametrize(
    ("status", "log", "words"),
    [
        ({"phase": "Failed"}, json.dumps({"failed": True, "msg": "no space; make some"}), "no space; make some"),
        ({"phase": "Failed", "message": "evicted"}, "", r"without a result \(evicted\): it printed nothing"),
        ({"phase": "Failed"}, "Traceback", r"without a result \(Failed\): Traceback"),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "not there"}}}]},
            "",
            "cannot pull its image accelkit.io/accelkit:1: not there",
        ),
    ],
)
def test_pod_failure_is_reported_and_all_objects_are_deleted(api, status, log, words):
    api.status, api.log = status, log
    with pytest.raises(ServiceError, match=words):
        run(api)
    assert api.objects == {}


def test_pod_that_does_not_end_times_out(api, monkeypatch):
    monkeypatch.setattr(pod_run, "compute_deadline_seconds", lambda _: 0.05)
    api.status = {"phase": "Pending", "conditions": [{"message": "no such folder"}]}
    with pytest.raises(ServiceError, match=r"did not end within 0\.05 s: no such folder"):
        run(api)
    assert api.objects == {}


def test_refused_request_leaves_no_objects(api):
    api.fail(ApiError("not allowed", status=403, reason="Forbidden"), "POST", "/secrets")
    with pytest.raises(ApiError, match="not allowed"):
        run(api)
    assert api.objects == {}


def test_image_is_read_from_node_agent_daemon_set(api):
    binding = {"metadata": {"name": "agents", "labels": AGENT_LABELS}, "subjects": [{"namespace": "gpu-sharing"}]}
    api.store(BINDINGS, binding)
    # Whoever may edit a namespace can have an object there that looks like ours.
    for namespace, image in (("a-team", "evil/x"), ("gpu-sharing", "accelkit.io/accelkit:2")):
        meta = {"name": "accelkit-node-agent", "namespace": namespace, "labels": AGENT_LABELS}
        api.store(DAEMON_SETS, {"metadata": meta, "spec": {"template": {"spec": {"containers": [{"image": image}]}}}})
    api.status, api.log = {"phase": "Failed"}, json.dumps({"failed": True, "msg": "seen"})
    with pytest.raises(ServiceError, match="seen"):
        run(api, source=PodImage(""))
    (pod,) = [request.body for request in api.writes if request.method == "POST" and request.path.endswith("/pods")]
    assert pod["spec"]["containers"][0]["image"] == "accelkit.io/accelkit:2"


def test_image_of_tenant_daemon_set_is_never_used(api):
    meta = {"name": "accelkit-node-agent", "namespace": "a-team", "labels": AGENT_LABELS}
    api.store(DAEMON_SETS, {"metadata": meta, "spec": {"template": {"spec": {"containers": [{"image": "evil/x"}]}}}})
    with pytest.raises(ConfigurationError, match="cannot create a pod without an image"):
        run(api, source=PodImage(""))
    assert not api.writes


def test_removal_without_image_only_inspects_scheduler_pod(api):
    scheduler = build_pod_path("kube-system", "kube-scheduler-master")
    api.objects[scheduler] = {
        "metadata": {"name": "kube-scheduler-master"},
        "spec": {"containers": [{"command": ["kube-scheduler"]}]},
    }
    assert run(api, "remove", source=PodImage(""))["changed"] is False
    with pytest.raises(ConfigurationError, match="cannot create a pod without an image"):
        run(api, "apply", source=PodImage(""))
    api.objects[scheduler]["spec"]["containers"][0]["command"] += [f"--config={SPEC.folder}/scheduler-0.yaml"]
    with pytest.raises(ConfigurationError, match=r"cannot remove accelkit's configuration .* no image is known"):
        run(api, "remove", source=PodImage(""))


def test_pod_requires_node_name(api):
    with pytest.raises(ConfigurationError, match="the name of its node"):
        run(api, spec=Spec())


@pytest.mark.parametrize(("ours", "desired", "changed"), [(0, 1, 1), (1, 1, 0), (1, 0, 1), (0, 0, 0)])
def test_check_reads_scheduler_pod_and_writes_nothing(api, ours, desired, changed):
    option = "--config=/etc/kubernetes/accelkit/config.yaml" if ours else "--config=/etc/kubernetes/other.yaml"
    scheduler = {"metadata": {"name": "kube-scheduler-master"}, "spec": {"containers": [{"command": [option]}]}}
    api.store(build_collection_path("v1", "pods", "kube-system"), scheduler)
    found = compare_without_pod(Connection("https://master", None), SPEC, desired=bool(desired))
    assert found["changed"] is bool(changed)
    assert found["problems"] == ["check mode starts no pod on master, so the changes to its files are not reported"]
    assert api.writes == []


def test_check_without_scheduler_pod_reports_unknown_state(api):
    spec = Spec(node="master", launch=LaunchSpec(kind="k3s"))
    found = compare_without_pod(Connection("https://master", None), spec, desired=True)
    assert found["changed"] is False
    assert "unknown to the API server" in found["problems"][0]
    assert api.requests == []
