from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from accelkit.errors import ApiError, ConfigurationError, ServiceError
from accelkit.kube.connection import Connection
from accelkit.scheduler.arguments import PodImage, Spec
from accelkit.scheduler.node_pod import run as pod_run
from accelkit.scheduler.node_pod.objects import build_objects, pod_name
from accelkit.scheduler.node_pod.run import run_in_pod

NAME = pod_name("master")
POD = f"/api/v1/namespaces/kube-system/pods/{NAME}"
RESULT = {"changed": True, "restored": True, "problems": [], "diff": []}
SPEC = Spec(node="master", timeout=0)
IMAGE = PodImage("accelkit.io/accelkit:1")


class Api:
    """An API server that keeps objects, and whose kubelet ends a pod at once with this status and log."""

    def __init__(self, url):
        self.url = url
        self.objects = {}
        self.deleted = []
        self.status = {"phase": "Succeeded"}
        self.log = json.dumps(RESULT)
        self.refuse = ""

    def handle(self, method, path, body):
        path = path.partition("?")[0]
        if method == "POST":
            if path.endswith(self.refuse or "\0"):
                return 403, {"message": "not allowed", "reason": "Forbidden"}
            self.objects[f"{path}/{body['metadata']['name']}"] = body
            return 201, body
        if method == "GET" and path == f"{POD}/log":
            return 200, self.log
        if path not in self.objects:
            return 404, {"message": "not found", "reason": "NotFound"}
        if method == "DELETE":
            self.deleted.append(path)
            return 200, self.objects.pop(path)
        return 200, {**self.objects[path], "status": self.status} if path == POD else self.objects[path]


@pytest.fixture
def api(monkeypatch):
    monkeypatch.setattr(pod_run, "_POLL_SECONDS", 0)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def answer(self):
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, value = server.api.handle(self.command, self.path, json.loads(content or b"null"))
            encoded = value.encode() if isinstance(value, str) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - names of the base class

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.api = Api(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.api
        server.shutdown()
        thread.join()


def run(api, action="apply", spec=SPEC, source=IMAGE):
    return run_in_pod(Connection(api.url, None), action, spec, source)


def test_the_result_is_the_last_line_and_nothing_stays(api):
    api.log = f"a warning\n{json.dumps(RESULT)}\n"
    assert run(api) == RESULT
    assert api.objects == {}
    assert len(api.deleted) == 5
    assert api.deleted[0] == POD, "the pod goes first, whose rights the others are"


def test_what_a_killed_run_left_goes_before_the_pod_starts(api):
    api.objects[POD] = {"metadata": {"name": NAME}}
    assert run(api) == RESULT
    assert api.deleted.count(POD) == 2


@pytest.mark.parametrize(
    ("status", "log", "words"),
    [
        ({"phase": "Failed"}, json.dumps({"failed": True, "msg": "no space; make some"}), "no space; make some"),
        ({"phase": "Failed", "message": "evicted"}, "", "without a result: evicted"),
        ({"phase": "Failed"}, "Traceback", "without a result: Traceback"),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "not there"}}}]},
            "",
            "cannot have its image accelkit.io/accelkit:1: not there",
        ),
    ],
)
def test_trouble_is_a_sentence_and_nothing_stays(api, status, log, words):
    api.status, api.log = status, log
    with pytest.raises(ServiceError, match=words):
        run(api)
    assert api.objects == {}


def test_a_pod_that_does_not_end_is_given_up(api, monkeypatch):
    monkeypatch.setattr(pod_run, "deadline_seconds", lambda _: 0.05)
    api.status = {"phase": "Pending", "conditions": [{"message": "no such folder"}]}
    with pytest.raises(ServiceError, match="did not end within"):
        run(api)
    assert api.objects == {}


def test_a_refusal_leaves_nothing(api):
    api.refuse = "/secrets"
    with pytest.raises(ApiError, match="not allowed"):
        run(api)
    assert api.objects == {}


def test_the_image_is_that_of_the_node_agents(api):
    agents = "/apis/apps/v1/daemonsets"
    container = {"image": "accelkit.io/accelkit:2"}
    api.objects[agents] = {"items": [{"spec": {"template": {"spec": {"containers": [container]}}}}]}
    api.status, api.log = {"phase": "Failed"}, json.dumps({"failed": True, "msg": "seen"})
    seen = {}
    handle = api.handle

    def spy(method, path, body):
        if method == "POST" and path.endswith("/pods"):
            seen.update(body["spec"]["containers"][0])
        return handle(method, path, body)

    api.handle = spy
    with pytest.raises(ServiceError, match="seen"):
        run(api, source=PodImage(""))
    assert seen["image"] == "accelkit.io/accelkit:2"


def test_without_an_image_a_removal_looks_at_the_scheduler_alone(api):
    scheduler = "/api/v1/namespaces/kube-system/pods/kube-scheduler-master"
    api.objects["/apis/apps/v1/daemonsets"] = {"items": []}
    api.objects[scheduler] = {"spec": {"containers": [{"command": ["kube-scheduler"]}]}}
    assert run(api, "remove", source=PodImage(""))["changed"] is False
    with pytest.raises(ConfigurationError, match="a pod needs an image"):
        run(api, "apply", source=PodImage(""))
    api.objects[scheduler]["spec"]["containers"][0]["command"] += [f"--config={SPEC.folder}/scheduler-0.yaml"]
    with pytest.raises(ConfigurationError, match="no image is known to remove it with"):
        run(api, "remove", source=PodImage(""))


def test_a_pod_needs_its_node(api):
    with pytest.raises(ConfigurationError, match="the name of its node"):
        run(api, spec=Spec())


@pytest.mark.parametrize("action", ["apply", "remove", "compare", "check", "compare-removal"])
def test_only_what_writes_may_write_and_all_lies_in_mounts(action):
    spec = Spec(node="master", dns_policy="ClusterFirstWithHostNet")
    pod = build_objects(action, spec, PodImage("i", host_folders=("/opt/scheduler",)))[-1][1]["spec"]
    mounts = {each["mountPath"]: each["readOnly"] for each in pod["containers"][0]["volumeMounts"]}
    writes = action in {"apply", "remove"}
    assert mounts == {
        "/run/accelkit": True,
        "/host/etc/kubernetes": not writes,
        "/host/var/lib": not writes,
        "/host/opt/scheduler": True,
        "/host/etc/hosts": True,
    }
    assert pod["nodeName"] == "master"
