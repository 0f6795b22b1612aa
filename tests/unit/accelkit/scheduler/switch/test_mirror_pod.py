import asyncio
from types import SimpleNamespace

import pytest
from fake_api.server import FakeApi
from scheduler_manifests import kubeadm_command, kubeadm_manifest
from support.clocks import Clock

from accelkit.errors import ApiError, ServiceError
from accelkit.kube.connection import Connection
from accelkit.kube.paths import build_pod_path
from accelkit.scheduler.switch import mirror_pod
from accelkit.scheduler.switch.mirror_pod import MirrorPod, _Watch

POD = build_pod_path("kube-system", "kube-scheduler-master")
COMMANDS = {"kube-scheduler": ["kube-scheduler", "--config=/etc/kubernetes/accelkit/scheduler-0.yaml"]}
WAITER = MirrorPod(Connection("http://127.0.0.1:1", None), "master", "/etc/kubernetes/manifests/kube-scheduler.yaml")


def pod(*, command=COMMANDS["kube-scheduler"], running=True, ready=True, restarts=0, container="a", mirror="h"):
    status = {
        "name": "kube-scheduler",
        "ready": ready,
        "started": ready,
        "restartCount": restarts,
        "containerID": container,
        "state": {"running": {}} if running else {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {} if running else {"terminated": {"exitCode": 1}},
    }
    annotations = {"kubernetes.io/config.hash": "h", "kubernetes.io/config.mirror": mirror}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": "kube-scheduler", "command": command[:1], "args": command[1:]}]},
        "status": {"containerStatuses": [status]},
    }


async def look(watch, answer):
    api = FakeApi()
    if isinstance(answer, ApiError):
        api.fail(answer)
    else:
        api.objects[POD] = answer
    await WAITER._observe(api, POD, COMMANDS, watch)
    return watch


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (pod(), None),
        (pod(command=["kube-scheduler"]), "the kubelet still runs the former manifest"),
        (pod(mirror="former"), "the kubelet still runs the former manifest"),
        (pod(ready=False), "its probes have not succeeded yet"),
        (pod(running=False), "its container is in the state CrashLoopBackOff (exit code 1)"),
        ({**pod(), "status": {}}, "the kubelet has not started it yet"),
        (ApiError("no", status=404), "the kubelet has not created its mirror pod"),
        (ApiError("connection refused"), "cannot read its mirror pod: connection refused"),
    ],
)
async def test_each_pod_state_has_its_message(answer, problem):
    watch = await look(_Watch(), answer)
    assert (watch.problem, watch.hopeless) == (problem, False)


async def test_container_added_by_admission_is_ignored():
    answer = pod()
    answer["spec"]["containers"].append({"name": "sidecar", "command": ["sh"]})
    assert (await look(_Watch(), answer)).problem is None


async def test_wait_is_abandoned_only_after_two_new_restarts():
    watch = await look(_Watch(), pod(running=False, restarts=7))
    assert not watch.hopeless, "what happened before is not of this configuration"
    assert not (await look(watch, pod(running=False, restarts=8))).hopeless
    assert (await look(watch, pod(running=False, restarts=9))).hopeless
    assert not (await look(watch, pod(ready=False, restarts=9))).hopeless


MANIFEST = kubeadm_manifest(34)
COMMAND = kubeadm_command(34)
RUNNING = {"command": COMMAND}


def api_server(clock, answer, logs):
    """An API server with the mirror pod as it is after so many seconds, and with its logs."""
    api, start = FakeApi(), clock.now

    def show(request):
        if request.path == POD:
            api.objects[POD] = answer(clock.now - start)
        elif (log := logs.get(request.query["previous"])) is None:
            raise ApiError("there is no such container", status=400)
        else:
            api.documents[request.path] = log

    api.before.append(show)
    return api


class Host:
    """A host that answers for kube-scheduler, and notes where it was asked."""

    def __init__(self, answer=True):
        self.answer, self.asked = answer, []

    def probe_url(self, url):
        self.asked.append(url)
        return self.answer


@pytest.fixture
def waited(monkeypatch):
    """Wait for a mirror pod; return how many seconds that took."""

    def wait(answer, *, host=None, logs=None, text=MANIFEST, act=WAITER.wait, marker=(None,)):
        clock = Clock(100.0)
        monkeypatch.setattr(mirror_pod, "time", clock)
        monkeypatch.setattr(mirror_pod, "asyncio", SimpleNamespace(run=asyncio.run, sleep=clock.sleep))
        api = api_server(clock, answer, logs or {})
        monkeypatch.setattr(mirror_pod, "ApiClient", lambda _connection: api)
        act(host or Host(), text, *marker)
        return clock.now - 100

    return wait


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (lambda _: pod(**RUNNING), 4),
        (lambda seconds: pod(**RUNNING, container="a" if seconds < 3 else "b"), 3 + 4),
        (lambda seconds: pod(**RUNNING, ready=seconds >= 10), 10 + 4),
    ],
    ids=["runs", "another container", "not ready"],
)
def test_scheduler_is_ready_after_same_container_runs_for_4_seconds(waited, answer, seconds):
    assert waited(answer) == seconds


def test_scheduler_without_healthz_response_is_not_ready(waited):
    host = Host(answer=False)
    with pytest.raises(ServiceError, match="after 120 s: its /healthz does not respond"):
        waited(lambda _: pod(**RUNNING), host=host)
    assert set(host.asked) == {"https://127.0.0.1:10259/healthz"}


def test_kubelet_probes_are_used_when_host_cannot_probe(waited):
    assert waited(lambda _: pod(**RUNNING), host=Host(answer=None)) == 4


@pytest.mark.parametrize(
    ("address", "port", "asked"),
    [
        ("0.0.0.0", "10300", ["https://127.0.0.1:10300/healthz"]),  # noqa: S104 - a flag's value
        ("::", "10300", ["https://127.0.0.1:10300/healthz"]),
        ("fd00::1", "10300", ["https://[fd00::1]:10300/healthz"]),
        ("10.0.0.1", "0", []),
    ],
)
def test_healthz_is_probed_at_configured_address_and_port(waited, address, port, asked):
    text = MANIFEST.replace("--bind-address=127.0.0.1", f"'--bind-address={address}'\n    - --secure-port={port}")
    at = COMMAND.index("--bind-address=127.0.0.1")
    command = [*COMMAND[:at], f"--bind-address={address}", f"--secure-port={port}", *COMMAND[at + 1 :]]
    host = Host()
    waited(lambda _: pod(command=command), host=host, text=text)
    assert host.asked == asked


def test_crash_looping_scheduler_fails_before_deadline_with_log_tail(waited):
    words = {"true": b"unknown field\n", "false": b""}
    with pytest.raises(
        ServiceError, match=r"CrashLoopBackOff \(exit code 1\); the end of its log:\nunknown field;"
    ) as no:
        waited(lambda seconds: pod(**RUNNING, running=False, restarts=int(seconds)), logs=words)
    assert "after 120 s" not in str(no.value)


def test_manifest_of_scheduler_that_is_not_running_is_not_changed(waited):
    with pytest.raises(ServiceError, match=r"the former manifest; its manifest was not changed"):
        waited(lambda _: pod(command=["kube-scheduler"]), act=WAITER.check, marker=())


def test_wait_ends_immediately_without_manifest(waited):
    assert waited(None, text=None) == 0
