"""Containers of our image over their lives: they are processes."""

import asyncio
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
from simulated_pods import (
    ACCOUNT,
    ACCOUNT_MOUNT,
    DEADLINE,
    IMAGE,
    PODS,
    Node,
    await_file,
    container,
    node_of,
    ours,
    read_conditions,
    read_log,
    variables,
)
from support.waiting import until

from accelkit.back_off import BackOff
from accelkit.sandbox.kubelet.pods import containers, pod_worker
from accelkit.sandbox.kubelet.pods.containers import ContainerRunner, PodContext
from accelkit.sandbox.kubelet.pods.volumes import PodVolumes
from accelkit.sandbox.kubelet.wire import Container, Pod, PodMeta
from accelkit.sandbox.processes import identify


@pytest.mark.parametrize("cards", [2])
async def test_container_process_has_log_devices_and_service_account_token(node, tmp_path):
    started = tmp_path / "started"
    node.bind("p", ours("wait", cards=2, env=variables(STARTED=started), **ACCOUNT_MOUNT), volumes=[ACCOUNT])
    await await_file(started)
    (said,) = read_log(node, "p")
    assert said["arguments"] == ["wait"]
    assert said["environment"]["CARDS"] == "card-0,card-1"
    folder = Path(said["environment"]["ACCELKIT_SERVICE_ACCOUNT"])
    assert {file.name for file in folder.iterdir()} == {"token", "ca.crt", "namespace"}
    assert (folder / "token").read_text() == "granted"
    token = (folder / "token").resolve()
    node.annotate("p", "sandbox.accelkit.io/exit", "0")
    await node.phase("p", "Succeeded")
    assert not token.exists(), "the token outlives its pod"


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (3, "Failed", "Error")])
async def test_pod_with_restart_policy_never_ends_with_its_container(node, code, phase, reason):
    node.bind("p", ours(str(code)), restartPolicy="Never")
    status = await node.phase("p", phase)
    assert [pod.metadata.name for pod in node.pods.list_active()] == []
    (main,) = status["containerStatuses"]
    identity = "simulated://" + sha256(b"uid-p/main/0").hexdigest()
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
    assert read_conditions(status) == {
        "PodReadyToStartContainers": "False",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
        "PodScheduled": "True",
    }


async def test_failed_container_is_restarted_until_it_succeeds(node, tmp_path):
    node.bind("p", ours("once", env=variables(MARK=tmp_path / "mark")), restartPolicy="OnFailure")
    (main,) = (await node.phase("p", "Succeeded"))["containerStatuses"]
    assert (main["restartCount"], main["state"]["terminated"]["exitCode"]) == (1, 0)
    # The last state is that of the process before.
    assert main["lastState"]["terminated"]["exitCode"] == 4
    assert main["containerID"] == "simulated://" + sha256(b"uid-p/main/1").hexdigest()
    assert len(read_log(node, "p")) == 2


async def test_container_restarts_by_default_with_crash_loop_back_off(tmp_path, monkeypatch):
    monkeypatch.setattr(containers, "_BACK_OFF", BackOff(0.1, 0.1))
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
async def test_back_off_doubles_up_to_limit_and_resets_after_healthy_run(
    tmp_path, monkeypatch, healthy_seconds, delays
):
    monkeypatch.setattr(containers, "_BACK_OFF", BackOff(1.0, 4.0))
    monkeypatch.setattr(containers, "_HEALTHY_SECONDS", healthy_seconds)
    slept = []

    async def skip(seconds):
        slept.append(seconds)
        await asyncio.sleep(0)

    bound = Pod(metadata=PodMeta(name="p"))
    pod = PodContext(pod=bound, volumes=PodVolumes(tmp_path, bound), changed=lambda: None)
    runner = Failing(Node(tmp_path).context, pod, Container(name="main"), policy="Always")
    monkeypatch.setattr(containers, "asyncio", SimpleNamespace(sleep=skip))
    running = asyncio.create_task(runner.run())
    await until(lambda: len(slept) >= len(delays))
    running.cancel()
    await asyncio.wait({running})
    assert slept[: len(delays)] == delays


async def test_terminated_container_is_reported_while_other_containers_run(node):
    node.bind("p", ours("5"), container("other"), restartPolicy="Never")
    main = await node.state("p", "terminated")
    status = node.find("p")["status"]
    assert (main["state"]["terminated"]["exitCode"], status["phase"]) == (5, "Running")
    assert "running" in status["containerStatuses"][1]["state"]


async def test_running_pod_is_never_pending_after_kubelet_restart(node, tmp_path):
    started = tmp_path / "started"
    init = ours("wait", name="init", env=variables(STARTED=started))
    since = "2025-01-01T00:00:00Z"
    node.bind("p", container(), initContainers=[init], status={"phase": "Running", "startTime": since})
    await node.until("p", lambda pod: "initContainerStatuses" in pod["status"])
    await await_file(started)
    status = node.find("p")["status"]
    assert (status["phase"], status["startTime"]) == ("Running", since)


async def test_process_of_deleted_pod_receives_sigterm(node, tmp_path):
    started = tmp_path / "started"
    node.bind("p", ours("wait", env=variables(STARTED=started)))
    await await_file(started)
    node.delete("p", grace=20)
    await node.until("p", lambda pod: pod is None)
    last = [request.body["status"] for request in node.api.done if request.method == "PATCH"][-1]
    # Its own exit code: it had the time to follow the signal.
    assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert last["phase"] == "Failed"


@pytest.mark.parametrize("ending", ["deleted", "vanished", "the node ends"])
async def test_process_is_killed_when_grace_period_expires(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(pod_worker, "_VANISHED_GRACE_SECONDS", 0.02)
    monkeypatch.setattr(pod_worker, "_SHUTDOWN_GRACE_SECONDS", 0.02)
    node = node_of(tmp_path)
    started = tmp_path / "started"
    # Less than the half minute that a pod has by itself.
    async with asyncio.timeout(DEADLINE / 2):
        async with node.running():
            node.bind("p", ours("stubborn", env=variables(STARTED=started)))
            await await_file(started)
            pid = read_log(node, "p")[0]["pid"]
            if ending == "deleted":
                node.delete("p", grace=0)
                await node.until("p", lambda pod: pod is None)
            elif ending == "vanished":
                del node.api.objects[f"{PODS}/p"]
                await until(lambda: not identify(pid))
        # A process that was killed is there until it is waited for.
        await until(lambda: not identify(pid))


async def test_exit_annotation_ends_process_and_sets_pod_phase(node, tmp_path):
    started = tmp_path / "started"
    node.bind("p", ours("wait", env=variables(STARTED=started)), container("side"))
    await await_file(started)
    node.annotate("p", "sandbox.accelkit.io/exit", "0")
    status = await node.phase("p", "Succeeded")
    assert [each["state"]["terminated"]["exitCode"] for each in status["containerStatuses"]] == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "policy", "expected"),
    [
        (("say", "/dev/termination-log", "0"), "File", "the last words"),
        (("3",), "File", None),
        (("3",), "FallbackToLogsOnError", '"arguments"'),
        (("0",), "FallbackToLogsOnError", None),
    ],
)
async def test_termination_message_is_written_to_status(node, arguments, policy, expected):
    node.bind("p", ours(*arguments, terminationMessagePolicy=policy), restartPolicy="Never")
    status = await node.phase("p", "Failed" if arguments == ("3",) else "Succeeded")
    (main,) = status["containerStatuses"]
    message = main["state"]["terminated"].get("message")
    assert message is None if expected is None else expected in message
