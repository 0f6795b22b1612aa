"""What a pod's status says of its containers, simulated ones and processes."""

import asyncio
import json

import pytest
from aiohttp import web
from simulated_pods import (
    ACCOUNT,
    ACCOUNT_MOUNT,
    DEADLINE,
    Node,
    Plugin,
    await_file,
    container,
    manager_of,
    ours,
    read_conditions,
    variables,
)
from support.http_servers import serve_http
from support.waiting import until

from accelkit.errors import ApiError


async def test_init_containers_run_sequentially_before_app_containers(node, tmp_path):
    started = tmp_path / "started"
    inits = [container("plain"), ours("wait", name="slow", env=variables(STARTED=started))]
    node.bind("p", container(), initContainers=inits)
    await await_file(started)
    pod = await node.until("p", lambda pod: "initContainerStatuses" in pod["status"])
    pod = await node.until("p", lambda pod: "running" in pod["status"]["initContainerStatuses"][1]["state"])
    status = pod["status"]
    assert status["phase"] == "Pending"
    assert read_conditions(status)["Initialized"] == "False"
    assert status["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
    assert [each["ready"] for each in status["initContainerStatuses"]] == [True, False]
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing", "message": ""}}


@pytest.mark.parametrize(("policy", "phase", "restarts"), [("Never", "Failed", 0), ("OnFailure", "Running", 1)])
async def test_failed_init_container_fails_pod_only_without_restarts(node, tmp_path, policy, phase, restarts):
    init = ours("once", name="init", env=variables(MARK=tmp_path / "mark"))
    node.bind("p", container(), initContainers=[init], restartPolicy=policy)
    status = await node.phase("p", phase)
    (seen,) = status["initContainerStatuses"]
    assert (seen["restartCount"], seen["ready"]) == (restarts, phase == "Running")
    assert read_conditions(status)["Ready"] == str(phase == "Running")


async def test_sidecar_runs_with_app_containers_and_does_not_affect_pod_phase(node, tmp_path):
    started = tmp_path / "started"
    side = ours("wait", name="side", env=variables(STARTED=started), restartPolicy="Always")
    node.bind("p", ours("0"), initContainers=[side], restartPolicy="Never")
    status = await node.phase("p", "Succeeded")
    (seen,) = status["initContainerStatuses"]
    # It may be ended before it heeds the signal; either way it is not its pod's failure.
    assert seen["state"]["terminated"]["exitCode"] in (7, 128 + 15)


async def test_simulated_pod_with_sidecar_is_initialized(node):
    node.bind("p", initContainers=[container("side", restartPolicy="Always"), container("init")])
    status = await node.phase("p", "Running")
    assert [next(iter(each["state"])) for each in status["initContainerStatuses"]] == ["running", "terminated"]
    assert [each["ready"] for each in status["initContainerStatuses"]] == [True, True]
    assert {kind for kind, value in read_conditions(status).items() if value == "False"} == set()


async def test_simulated_containers_of_deleted_pod_succeed(node):
    node.bind("p", initContainers=[container("side", restartPolicy="Always")])
    await node.phase("p", "Running")
    node.delete("p")
    await node.until("p", lambda pod: pod is None)
    last = [request.body["status"] for request in node.api.done if request.method == "PATCH"][-1]
    ended = [each["state"]["terminated"] for each in (*last["initContainerStatuses"], *last["containerStatuses"])]
    assert [(each["exitCode"], each["finishedAt"]) for each in ended] == [(0, "2026-01-02T03:04:05Z")] * 2
    assert last["phase"] == "Succeeded"


async def test_running_pod_reports_addresses_and_start_time(node):
    resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}
    node.bind("p", container(resources=resources))
    status = await node.phase("p", "Running")
    assert status["startTime"] == "2026-01-02T03:04:05Z"
    assert (status["hostIP"], status["podIP"]) == ("127.0.0.1", "127.0.0.1")
    assert status["hostIPs"] == status["podIPs"] == [{"ip": "127.0.0.1"}]
    (main,) = status["containerStatuses"]
    assert main["resources"] == resources
    assert (main["state"], main["started"], main["ready"], main["restartCount"]) == (
        {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
        True,
        True,
        0,
    )
    assert {each["lastTransitionTime"] for each in status["conditions"]} == {"2026-01-02T03:04:05Z"}


async def test_failed_device_preparation_is_reported_and_retried(tmp_path):
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


async def test_container_creation_error_is_reported_in_pod_status(node):
    node.bind("p", ours("0", command=["sh"]))
    main = await node.state("p", "waiting", reason="CreateContainerError")
    assert "the command of accelkit's image is accelkit" in main["state"]["waiting"]["message"]


async def test_pod_without_credentials_waits_and_reports_error(node):
    node.api.fail(ApiError("no such account", status=500), "POST", "token", times=None)
    node.bind("p", container("other"), ours("0", **ACCOUNT_MOUNT), restartPolicy="Never", volumes=[ACCOUNT])
    main = await node.state("p", "waiting", reason="ContainerCreating")
    assert main["state"]["waiting"]["message"] == "no such account"
    assert read_log_names(node) == []
    node.api.recover()
    await node.until("p", lambda pod: "exitCode" in json.dumps(pod["status"]["containerStatuses"][1]))


def read_log_names(node):
    return list(node.root.rglob("*.log"))


async def test_simulated_pod_requests_no_service_account_token(node):
    node.bind("p")
    await node.phase("p", "Running")
    assert not [request for request in node.api.requests if request.path.endswith("/token")]


async def test_status_write_is_retried_when_api_server_is_busy(node):
    node.api.fail(ApiError("too many", status=429), "PATCH", times=2)
    node.bind("p")
    await node.phase("p", "Running")


async def test_permanently_refused_status_write_is_not_retried(node):
    node.api.fail(ApiError("it makes no sense", status=422), "PATCH", times=None)
    node.bind("p")
    await until(lambda: node.api.writes)
    await asyncio.sleep(0.1)
    assert len(node.api.writes) == 1


async def test_container_is_ready_after_readiness_probe_passes(node, tmp_path):
    passes, asked = asyncio.Event(), []

    async def answer(request):
        asked.append(request.path)
        await passes.wait()
        return web.Response(status=204)

    async with serve_http(answer) as url:
        probe = {"httpGet": {"port": "web", "path": "ready"}, "timeoutSeconds": DEADLINE}
        ports = [{"name": "web", "containerPort": url.port}]
        env = variables(STARTED=tmp_path / "started")
        node.bind("p", ours("wait", env=env, readinessProbe=probe, ports=ports))
        main = await node.state("p", "running")
        assert (main["ready"], read_conditions(node.find("p")["status"])["Ready"]) == (False, "False")
        passes.set()
        pod = await node.until("p", lambda pod: read_conditions(pod["status"])["Ready"] == "True")
        assert pod["status"]["containerStatuses"][0]["ready"] is True
    assert asked == ["/ready"]


async def test_unsupported_probe_passes_and_invalid_probe_never_passes(node, tmp_path):
    env = variables(STARTED=tmp_path / "started")
    node.bind("passes", ours("wait", env=env, readinessProbe={"exec": {"command": ["true"]}}))
    node.bind("never", ours("wait", env=env, readinessProbe={"httpGet": {"port": "none"}}))
    await node.until("passes", lambda pod: '"ready": true' in json.dumps(pod["status"].get("containerStatuses")))
    assert (await node.state("never", "running"))["ready"] is False
