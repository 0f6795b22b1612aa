from __future__ import annotations

import json

import pytest

from accelkit.cluster.connection import Connection
from accelkit.controlplane.mirror_pod import MirrorPod, _Watch
from accelkit.errors import ApiError

COMMANDS = {"kube-scheduler": ["kube-scheduler", "--config=/etc/kubernetes/accelkit/scheduler-0.yaml"]}
WAITER = MirrorPod(Connection("http://127.0.0.1:1", None), "master", "/etc/kubernetes/manifests/kube-scheduler.yaml")


class Api:
    """Answers with one pod."""

    def __init__(self, answer):
        self.answer = answer

    async def get(self, _path):
        if isinstance(self.answer, ApiError):
            raise self.answer
        return json.dumps(self.answer).encode()


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
    await WAITER._look(Api(answer), "/pod", COMMANDS, watch)
    return watch


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (pod(), ""),
        (pod(command=["kube-scheduler"]), "the kubelet still runs the former manifest"),
        (pod(mirror="former"), "the kubelet still runs the former manifest"),
        (pod(ready=False), "its probes are not passed yet"),
        (pod(running=False), "its container is in CrashLoopBackOff (it ended with 1)"),
        ({**pod(), "status": {}}, "the kubelet has not started it yet"),
        (ApiError("no", status=404), "the kubelet shows no mirror pod of it"),
        (ApiError("connection refused"), "the API server: connection refused"),
    ],
)
async def test_each_state_has_its_sentence(answer, problem):
    watch = await look(_Watch(), answer)
    assert (watch.problem, watch.hopeless) == (problem, False)


async def test_a_container_that_admission_added_does_not_matter():
    answer = pod()
    answer["spec"]["containers"].append({"name": "sidecar", "command": ["sh"]})
    assert (await look(_Watch(), answer)).problem == ""


async def test_waiting_is_in_vain_after_restarts_that_were_seen_and_not_after_old_ones():
    watch = await look(_Watch(), pod(running=False, restarts=7))
    assert not watch.hopeless, "what happened before is not of this configuration"
    assert not (await look(watch, pod(running=False, restarts=8))).hopeless
    assert (await look(watch, pod(running=False, restarts=9))).hopeless
    assert not (await look(watch, pod(ready=False, restarts=9))).hopeless


async def test_a_new_container_must_prove_itself_anew():
    watch = await look(_Watch(), pod())
    since = watch.steady_since
    assert (await look(watch, pod())).steady_since == since
    assert (await look(watch, pod(container="b"))).steady_since >= since
    assert watch.container_id == "b"
