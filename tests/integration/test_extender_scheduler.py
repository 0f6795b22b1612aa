"""The real kube-scheduler and the extender: over TLS, with whole nodes in the body, and with opportunistic batching."""

from __future__ import annotations

import contextlib
import hashlib
import re
import signal
import ssl
import subprocess
from pathlib import Path

import msgspec
import pytest
from extender_certificates import list_server_options, write_certificates
from extender_process import GIB, MEMORY, Process, client_of, used_by_card, world_of
from real_scheduler import build_configuration, find_program, run_scheduler
from support.waiting import until

from accelkit.sandbox.certificates import Authority
from accelkit.sandbox.layout import write_atomically
from accelkit.scheduler.configuration.versions import parse_minor
from accelkit.serving.tls import CLIENT_NAME

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAME = "tls-scheduler"
# The first minor version whose kube-scheduler places a pod by the scores of an equal one before it.
BATCHING = 35


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    authority = Authority("extender")
    return write_certificates(
        tmp_path_factory.mktemp("pki"), authority, {"client": authority.issue_client(CLIENT_NAME)}
    )


def list_arguments(control_plane, pki):
    return ["--kubeconfig", str(control_plane.kubeconfig), *list_server_options(pki)]


@pytest.fixture(scope="module")
def extender(control_plane, pki, tmp_path_factory):
    arguments = list_arguments(control_plane, pki)
    with Process(tmp_path_factory.mktemp("logs"), *arguments, plain=False) as process:
        yield process


async def count_requests(client) -> dict[str, int]:
    """How many requests there were, by version of HTTP; our own come by HTTP/1.1."""
    _, text = await client.ask("GET", "/metrics")
    return {
        protocol: int(float(count))
        for protocol, count in re.findall(r'accelkit_extender_requests_total\{protocol="(.*)"\} (\S+)', text.decode())
    }


def configuration(control_plane, extender, pki, *, whole_nodes: bool) -> dict:
    tls = {"caFile": str(pki / "ca.crt"), "certFile": str(pki / "client.crt"), "keyFile": str(pki / "client.key")}
    entry = {
        "urlPrefix": extender.url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "weight": 1,
        "enableHTTPS": True,
        "tlsConfig": tls,
        "nodeCacheCapable": not whole_nodes,
        "managedResources": [{"name": MEMORY, "ignoredByScheduler": True}],
    }
    return build_configuration(NAME, control_plane.paths.build_kubeconfig_path("kube-scheduler"), entry)


@pytest.mark.parametrize("whole_nodes", [False, True])
async def test_scheduler_binds_over_tls(control_plane, extender, pki, tmp_path, whole_nodes):
    tls = ssl.create_default_context(cafile=pki / "ca.crt")
    tls.load_cert_chain(pki / "client.crt", pki / "client.key")
    config = configuration(control_plane, extender, pki, whole_nodes=whole_nodes)
    async with world_of(control_plane.kubeconfig) as world, client_of(extender, tls) as client:
        node = await world.node(2, 16, allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"})
        await client.shows(node, lambda view: view["state"] == "shared")
        placement = {
            "schedulerName": NAME,
            "nodeSelector": {"accelkit-test": node},
            "tolerations": [{"operator": "Exists"}],
        }
        with run_scheduler(config, tmp_path) as log:
            fits, full = await world.pod(12, spec=placement), await world.pod(20, spec=placement)

            async def bound() -> bool:
                return bool((await world.read(fits))["spec"].get("nodeName"))

            try:
                await until(bound)
            except AssertionError as exc:
                raise AssertionError(log.read_text()[-4000:]) from exc
            assert "1 insufficient accelkit.io/memory in one card" in await world.unschedulable(full)
        await client.shows(node, lambda view: used_by_card(view) == {f"{node}-0": 12})
        assert await world.charged(node) == {f"{node}-0": 12}


async def test_scheduler_uses_one_http2_connection_and_reconnects_after_restart(control_plane, pki, tmp_path):
    tls = ssl.create_default_context(cafile=pki / "ca.crt")
    tls.load_cert_chain(pki / "client.crt", pki / "client.key")
    arguments = list_arguments(control_plane, pki)
    first = Process(tmp_path, *arguments, plain=False)
    second = Process(tmp_path, *arguments, "--no-http2", plain=False, port=first.port)
    config = configuration(control_plane, first, pki, whole_nodes=False)
    async with world_of(control_plane.kubeconfig) as world:
        node = await world.node(2, 16, allocatable={"cpu": "4", "memory": "8Gi", "pods": "20"})
        placement = {
            "schedulerName": NAME,
            "nodeSelector": {"accelkit-test": node},
            "tolerations": [{"operator": "Exists"}],
        }

        async def bind(count: int) -> None:
            pods = [await world.pod(1, spec=placement) for _ in range(count)]

            async def bound() -> bool:
                return all([(await world.read(pod))["spec"].get("nodeName") for pod in pods])

            await until(bound)

        with first, run_scheduler(config, tmp_path):
            async with client_of(first, tls) as client:
                await client.shows(node, lambda view: view["state"] == "shared")
                await bind(8)
                # Scores of a single node are asked of nobody.
                assert (await count_requests(client))["HTTP/2"] >= 16
                assert count_connections(first) == 2
            first.signal(signal.SIGTERM)
            assert await first.ended() == 0
            with second:
                async with client_of(second, tls) as client:
                    await client.shows(node, lambda view: len(view["cards"]) == 2)
                    await bind(2)
                    counted = await count_requests(client)
                    assert counted["HTTP/2"] == 0
                    assert counted["HTTP/1.1"] > 4
    assert "Traceback" not in first.log.read_text() + second.log.read_text()


def count_connections(process: Process) -> int:
    """How many connections it has on the port of the verbs."""
    port = f":{process.port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(local.endswith(port) and state == "01" for _, local, _, state, *_ in lines)


def can_be_batched(config: dict) -> dict:
    """A configuration without the default spreading, by which kube-scheduler takes no two pods for equal."""
    arguments = {"defaultingType": "List", "defaultConstraints": []}
    profile = {**config["profiles"][0], "pluginConfig": [{"name": "PodTopologySpread", "args": arguments}]}
    return {**config, "profiles": [profile]}


@pytest.mark.parametrize("asked", [True, False])
async def test_equal_pods_are_placed_by_extender_despite_batching_hints(control_plane, extender, pki, tmp_path, asked):
    told = subprocess.run([find_program(), "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    if parse_minor(told.split()[-1]) < BATCHING:
        pytest.skip(f"no opportunistic batching before Kubernetes 1.{BATCHING}")
    tls = ssl.create_default_context(cafile=pki / "ca.crt")
    tls.load_cert_chain(pki / "client.crt", pki / "client.key")
    config = can_be_batched(configuration(control_plane, extender, pki, whole_nodes=False))
    if not asked:
        # Without an extender, this kube-scheduler places the second of two equal pods where the first one's scores say.
        config = {**config, "extenders": []}
    async with world_of(control_plane.kubeconfig) as world, client_of(extender, tls) as client:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", MEMORY: "16"}
        nodes = [await world.node(1, 16, allocatable=amounts) for _ in range(3)]
        for node in nodes:
            await client.shows(node, lambda view: view["state"] == "shared")
        among = {"matchExpressions": [{"key": "accelkit-test", "operator": "In", "values": nodes}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [among]}}
        spec = {"schedulerName": NAME, "affinity": {"nodeAffinity": required}, "tolerations": [{"operator": "Exists"}]}
        pods = [await world.pod(8 if asked else 12, spec=spec) for _ in range(4 if asked else 3)]

        async def placed() -> list[str]:
            found = [(await world.read(pod))["spec"].get("nodeName") for pod in pods]
            return found if all(found) else []

        with run_scheduler(config, tmp_path) as log:
            try:
                found = await until(placed)
            except AssertionError as exc:
                raise AssertionError(log.read_text()[-4000:]) from exc
        hinted = "OpportunisticBatch provided node hint" in log.read_text()
    # Two to a card, as the extender's scores want it, against one to a node.
    assert (len(set(found)), hinted) == ((2, False) if asked else (3, True))


async def ready_with(sandbox, text: bytes) -> None:
    """Give the sandbox's scheduler a configuration and wait until it runs with it."""
    write_atomically(sandbox.paths.scheduler_config, text, sandbox.paths.scheduler_config.stat().st_mode)
    digest = hashlib.sha256(text).hexdigest()

    async def runs() -> bool:
        with contextlib.suppress(msgspec.DecodeError):
            state = msgspec.json.decode(sandbox.paths.scheduler_state.read_bytes())
            return state["config_sha256"] == digest and state["ready"]
        return False

    await until(runs, seconds=120)


async def test_installed_scheduler_works_with_whole_nodes_in_request(cluster):
    sandbox = cluster.sandbox
    before = sandbox.paths.scheduler_config.read_bytes()
    assert before.count(b"nodeCacheCapable: true") == 1
    try:
        await ready_with(sandbox, before.replace(b"nodeCacheCapable: true", b"nodeCacheCapable: false"))
        await cluster.create_pod("whole-nodes", memory=12)
        given = await cluster.running("whole-nodes")
        assert given["main"]["environment"]["ACCELKIT_MEMORY_BYTES"] == str(12 * GIB)
        await cluster.create_pod("too-large", memory=20)
        assert "1 insufficient accelkit.io/memory in one card" in await cluster.refused("too-large")
    finally:
        await ready_with(sandbox, before)
    await cluster.create_pod("names-only", memory=4)
    await cluster.running("names-only")
