"""Containers over their lives: simulated ones, and those of our image, which are processes."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from aiohttp import web
from simulated_pods import DEADLINE, IMAGE, Node, Plugin, container, manager_of, serve, write_program

from accelkit.errors import ApiError
from accelkit.sandbox.kubelet.pods import containers, pod_status, pod_worker
from accelkit.sandbox.kubelet.pods.containers import ContainerRunner, PodContext
from accelkit.sandbox.kubelet.wire import Container, Pod, PodMeta

# Writes what it was given, waits for as long as it is told and ends as it is told.
PROGRAM = """
import json, os, signal, sys
print(json.dumps({"arguments": sys.argv[1:], "environment": dict(os.environ)}), flush=True)
if "wait" in sys.argv:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    open(os.environ["STARTED"], "w").close()
    signal.sigwait({signal.SIGTERM})
    sys.exit(7)
if "once" in sys.argv:
    mark = os.environ["MARK"]
    first = not os.path.exists(mark)
    open(mark, "w").close()
    sys.exit(4 if first else 0)
sys.exit(int(sys.argv[-1]))
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(containers, "_BACK_OFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(containers, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(pod_worker, "_CREDENTIALS_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(pod_status, "_RETRY_SECONDS", (0.01, 0.02))


def ours(*args, name="main", **fields):
    return container(name, IMAGE, args=list(args), **fields)


def node_of(folder, **fields):
    return Node(folder, environ=write_program(folder, PROGRAM), **fields)


def read_log(node, pod, name="main"):
    text = (node.root / f"var/log/pods/default_{pod}_uid-{pod}/{name}.log").read_text()
    return [json.loads(line) for line in text.splitlines()]


def variables(**values):
    return [{"name": name, "value": str(value)} for name, value in values.items()]


async def await_file(path):
    async with asyncio.timeout(DEADLINE):
        while not path.exists():
            await asyncio.sleep(0.005)


def conditions(status):
    return {each["type"]: each["status"] for each in status["conditions"]}


async def test_a_process_has_a_log_its_devices_and_a_kubeconfig(tmp_path):
    node = node_of(tmp_path, manager=manager_of(2))
    async with node.running():
        node.bind("p", ours("0", cards=2), restartPolicy="Never")
        await node.phase("p", "Succeeded")
        (said,) = read_log(node, "p")
        assert said["arguments"] == ["0"]
        assert said["environment"]["CARDS"] == "card-0,card-1"
        folder = tmp_path / "var/lib/kubelet/pods/uid-p"
        assert said["environment"]["KUBECONFIG"].startswith(str(folder))
        assert not folder.exists(), "the token outlives its pod"


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (3, "Failed", "Error")])
async def test_without_restarts_a_pod_ends_as_its_container_does(tmp_path, code, phase, reason):
    node = node_of(tmp_path)
    async with node.running():
        node.bind("p", ours(str(code)), restartPolicy="Never")
        status = await node.phase("p", phase)
        assert [pod.metadata.name for pod in node.pods.list_active()] == []
    (main,) = status["containerStatuses"]
    identity = "simulated://uid-p/main/0"
    assert main == {
        "name": "main",
        "image": IMAGE,
        "imageID": "",
        "containerID": identity,
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": {
            "terminated": {
                "exitCode": code,
                "reason": reason,
                "containerID": identity,
                "startedAt": "2026-01-02T03:04:05Z",
                "finishedAt": "2026-01-02T03:04:05Z",
            }
        },
        "lastState": {},
    }
    assert conditions(status) == {
        "PodReadyToStartContainers": "False",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
        "PodScheduled": "True",
    }


async def test_a_container_that_fails_is_restarted_until_it_succeeds(tmp_path):
    node = node_of(tmp_path)
    async with node.running():
        node.bind("p", ours("once", env=variables(MARK=tmp_path / "mark")), restartPolicy="OnFailure")
        (main,) = (await node.phase("p", "Succeeded"))["containerStatuses"]
    assert (main["restartCount"], main["state"]["terminated"]["exitCode"]) == (1, 0)
    # The last state is that of the process before.
    assert main["lastState"]["terminated"]["exitCode"] == 4
    assert main["containerID"] == "simulated://uid-p/main/1"
    assert len(read_log(node, "p")) == 2


async def test_by_default_a_container_is_restarted_for_ever_and_says_that_it_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(containers, "_BACK_OFF_SECONDS", (0.1, 0.1))
    node = node_of(tmp_path)
    async with node.running():
        node.bind("p", ours("0"))
        main = await node.state("p", "waiting", reason="CrashLoopBackOff")
        assert main["state"]["waiting"]["message"] == "back-off 0s restarting failed container"
        assert (main["ready"], main["containerID"]) == (False, "")
        assert main["lastState"]["terminated"]["exitCode"] == 0
        await node.until("p", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 2)
        assert node.find("p")["status"]["phase"] == "Running"


class Failing(ContainerRunner):
    """A container that fails at once."""

    async def _run_once(self):
        return 1


@pytest.mark.parametrize(("healthy_seconds", "delays"), [(600.0, [1, 2, 4, 4]), (0.0, [1, 1, 1, 1])])
async def test_the_back_off_doubles_up_to_its_limit_unless_the_container_ran_well(
    tmp_path, monkeypatch, healthy_seconds, delays
):
    monkeypatch.setattr(containers, "_BACK_OFF_SECONDS", (1.0, 4.0))
    monkeypatch.setattr(containers, "_HEALTHY_SECONDS", healthy_seconds)
    slept = []

    async def skip(seconds):
        slept.append(seconds)
        await asyncio.sleep(0)

    pod = PodContext(pod=Pod(metadata=PodMeta(name="p")), kubeconfig=tmp_path, changed=lambda: None)
    runner = Failing(Node(tmp_path).context, pod, Container(name="main"), policy="Always")
    monkeypatch.setattr(containers, "asyncio", SimpleNamespace(sleep=skip))
    running = asyncio.create_task(runner.run())
    while len(slept) < len(delays):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    assert slept[: len(delays)] == delays


async def test_a_container_that_has_ended_shows_while_others_go_on(tmp_path):
    node = node_of(tmp_path)
    async with node.running():
        node.bind("p", ours("5"), container("other"), restartPolicy="Never")
        main = await node.state("p", "terminated")
        status = node.find("p")["status"]
    assert (main["state"]["terminated"]["exitCode"], status["phase"]) == (5, "Running")
    assert "running" in status["containerStatuses"][1]["state"]


async def test_a_pod_that_ran_before_the_kubelet_was_restarted_is_never_pending_again(tmp_path):
    node = node_of(tmp_path)
    started = tmp_path / "started"
    init = ours("wait", name="init", env=variables(STARTED=started))
    async with node.running():
        since = "2025-01-01T00:00:00Z"
        node.bind("p", container(), initContainers=[init], status={"phase": "Running", "startTime": since})
        await node.until("p", lambda pod: "initContainerStatuses" in pod["status"])
        await await_file(started)
        status = node.find("p")["status"]
    assert (status["phase"], status["startTime"]) == ("Running", since)


async def test_a_deleted_pods_process_is_asked_to_end(tmp_path):
    node = node_of(tmp_path)
    started = tmp_path / "started"
    async with node.running():
        node.bind("p", ours("wait", env=variables(STARTED=started)))
        await await_file(started)
        node.delete("p", grace=20)
        await node.until("p", lambda pod: pod is None)
    last = [request.body["status"] for request in node.api.done if request.method == "PATCH"][-1]
    # Its own exit code: it had the time to follow the signal.
    assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert last["phase"] == "Failed"


async def test_the_exit_annotation_ends_a_process_and_says_how_the_pod_ended(tmp_path):
    node = node_of(tmp_path)
    started = tmp_path / "started"
    async with node.running():
        node.bind("p", ours("wait", env=variables(STARTED=started)), container("side"))
        await await_file(started)
        node.annotate("p", "sandbox.accelkit.io/exit", "0")
        status = await node.phase("p", "Succeeded")
    assert [each["state"]["terminated"]["exitCode"] for each in status["containerStatuses"]] == [0, 0]


async def test_init_containers_run_one_after_the_other_before_the_others(tmp_path):
    node = node_of(tmp_path)
    started = tmp_path / "started"
    inits = [container("plain"), ours("wait", name="slow", env=variables(STARTED=started))]
    async with node.running():
        node.bind("p", container(), initContainers=inits)
        await await_file(started)
        pod = await node.until("p", lambda pod: "initContainerStatuses" in pod["status"])
        pod = await node.until("p", lambda pod: "running" in pod["status"]["initContainerStatuses"][1]["state"])
        status = pod["status"]
        assert status["phase"] == "Pending"
        assert conditions(status)["Initialized"] == "False"
        assert status["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
        assert [each["ready"] for each in status["initContainerStatuses"]] == [True, False]
        assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing", "message": ""}}


@pytest.mark.parametrize(("policy", "phase", "restarts"), [("Never", "Failed", 0), ("OnFailure", "Running", 1)])
async def test_a_failed_init_container_ends_the_pod_only_where_nothing_is_restarted(tmp_path, policy, phase, restarts):
    node = node_of(tmp_path)
    init = ours("once", name="init", env=variables(MARK=tmp_path / "mark"))
    async with node.running():
        node.bind("p", container(), initContainers=[init], restartPolicy=policy)
        status = await node.phase("p", phase)
    (seen,) = status["initContainerStatuses"]
    assert (seen["restartCount"], seen["ready"]) == (restarts, phase == "Running")
    assert conditions(status)["Ready"] == str(phase == "Running")


async def test_a_sidecar_runs_beside_the_others_and_does_not_count_at_the_end(tmp_path):
    node = node_of(tmp_path)
    started = tmp_path / "started"
    side = ours("wait", name="side", env=variables(STARTED=started), restartPolicy="Always")
    async with node.running():
        node.bind("p", ours("0"), initContainers=[side], restartPolicy="Never")
        status = await node.phase("p", "Succeeded")
    (seen,) = status["initContainerStatuses"]
    # It may be ended before it heeds the signal; either way it is not its pod's failure.
    assert seen["state"]["terminated"]["exitCode"] in (7, 128 + 15)


async def test_a_simulated_pod_is_initialized_with_its_sidecar(tmp_path):
    node = Node(tmp_path)
    async with node.running():
        node.bind("p", initContainers=[container("side", restartPolicy="Always"), container("init")])
        status = await node.phase("p", "Running")
    assert [next(iter(each["state"])) for each in status["initContainerStatuses"]] == ["running", "terminated"]
    assert [each["ready"] for each in status["initContainerStatuses"]] == [True, True]
    assert {kind for kind, value in conditions(status).items() if value == "False"} == set()


async def test_a_running_pod_says_where_it_is_and_since_when(tmp_path):
    node = Node(tmp_path)
    async with node.running():
        node.bind("p")
        status = await node.phase("p", "Running")
    assert status["startTime"] == "2026-01-02T03:04:05Z"
    assert (status["hostIP"], status["podIP"]) == ("127.0.0.1", "127.0.0.1")
    assert status["hostIPs"] == status["podIPs"] == [{"ip": "127.0.0.1"}]
    (main,) = status["containerStatuses"]
    assert (main["state"], main["started"], main["ready"], main["restartCount"]) == (
        {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
        True,
        True,
        0,
    )
    assert {each["lastTransitionTime"] for each in status["conditions"]} == {"2026-01-02T03:04:05Z"}


async def test_a_device_that_cannot_be_prepared_is_tried_again_and_the_pod_says_why(tmp_path):
    plugin = Plugin(fails=1000)
    node = Node(tmp_path, manager=manager_of(1, plugin))
    async with node.running():
        node.bind("p", container(cards=1), initContainers=[container("init", cards=1)])
        pod = await node.until(
            "p", lambda pod: "CreateContainerConfigError" in json.dumps(pod["status"].get("initContainerStatuses"))
        )
        assert "the card sleeps" in json.dumps(pod["status"]["initContainerStatuses"])
        plugin.fails = 0
        await node.phase("p", "Running")
    # Once for each container.
    assert plugin.started == [["card-0"], ["card-0"]]


async def test_a_container_that_cannot_be_made_says_why_and_is_tried_again(tmp_path):
    node = node_of(tmp_path)
    async with node.running():
        node.bind("p", ours("0", command=["sh"]))
        main = await node.state("p", "waiting", reason="CreateContainerError")
        assert "the command of our image is accelkit" in main["state"]["waiting"]["message"]


async def test_a_pod_without_credentials_waits_for_them_and_says_why(tmp_path):
    node = node_of(tmp_path)
    node.api.fail(ApiError("no such account", status=500), "POST", "token", times=None)
    async with node.running():
        node.bind("p", container("other"), ours("0"), restartPolicy="Never")
        main = await node.state("p", "waiting", reason="ContainerCreating")
        assert main["state"]["waiting"]["message"] == "no such account"
        assert read_log_names(node) == []
        node.api.recover()
        await node.until("p", lambda pod: "exitCode" in json.dumps(pod["status"]["containerStatuses"][1]))


def read_log_names(node):
    return list(node.root.rglob("*.log"))


async def test_simulated_pods_need_no_credentials(tmp_path):
    node = Node(tmp_path)
    async with node.running():
        node.bind("p")
        await node.phase("p", "Running")
    assert not [request for request in node.api.requests if request.path.endswith("/token")]


async def test_a_status_is_written_again_when_the_api_server_had_no_time(tmp_path):
    node = Node(tmp_path)
    node.api.fail(ApiError("too many", status=429), "PATCH", times=2)
    async with node.running():
        node.bind("p")
        await node.phase("p", "Running")


async def test_a_status_that_is_refused_for_good_is_not_written_again(tmp_path):
    node = Node(tmp_path)
    node.api.fail(ApiError("it makes no sense", status=422), "PATCH", times=None)
    async with node.running():
        node.bind("p")
        async with asyncio.timeout(DEADLINE):
            while not node.api.writes:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        assert len(node.api.writes) == 1


async def test_a_container_with_a_probe_is_ready_once_that_passes(tmp_path):
    node = node_of(tmp_path)
    passes, asked = asyncio.Event(), []

    async def answer(request):
        asked.append(request.path)
        await passes.wait()
        return web.Response(status=204)

    async with serve(answer) as port, node.running():
        probe = {"httpGet": {"port": "web", "path": "ready"}, "timeoutSeconds": DEADLINE}
        ports = [{"name": "web", "containerPort": port}]
        env = variables(STARTED=tmp_path / "started")
        node.bind("p", ours("wait", env=env, readinessProbe=probe, ports=ports))
        main = await node.state("p", "running")
        assert (main["ready"], conditions(node.find("p")["status"])["Ready"]) == (False, "False")
        passes.set()
        pod = await node.until("p", lambda pod: conditions(pod["status"])["Ready"] == "True")
        assert pod["status"]["containerStatuses"][0]["ready"] is True
    assert asked == ["/ready"]


async def test_a_probe_of_another_kind_passes_and_one_that_makes_no_sense_never_does(tmp_path):
    node = node_of(tmp_path)
    async with node.running():
        env = variables(STARTED=tmp_path / "started")
        node.bind("passes", ours("wait", env=env, readinessProbe={"exec": {"command": ["true"]}}))
        node.bind("never", ours("wait", env=env, readinessProbe={"httpGet": {"port": "none"}}))
        await node.until("passes", lambda pod: '"ready": true' in json.dumps(pod["status"].get("containerStatuses")))
        assert (await node.state("never", "running"))["ready"] is False
