"""What the tools of other systems show of a cluster that accelkit serves: by what they read, and over TLS."""

import asyncio
import json
import os
import shutil
import ssl
import subprocess
from collections import Counter

import pytest
from conftest import PODS, Cluster, Sandbox
from extender_certificates import list_server_options, write_certificates
from extender_process import Process, client_of, create_known_node, world_of
from support.waiting import poll_until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.sandbox.certificates import Authority

pytestmark = [pytest.mark.integration, pytest.mark.extended, pytest.mark.timeout(600)]

MEMORY, COUNT, CARD = "aliyun.com/gpu-mem", "aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"
I915, MILLICORES, GPU_MEMORY = "gpu.intel.com/i915", "gpu.intel.com/millicores", "gpu.intel.com/memory.max"
# Extenders of these tests write as the administrator, who may not unless the inventory names him.
CONFIGURATION = json.dumps({"accelkit_dialects": ["aliyun"], "extender_assignment_writers": ["admin"]})
NODES = """nodes:
- {name: node-1, cards: [{memory: 16GiB}, {memory: 16GiB}]}
- {name: node-2, cards: [{memory: 16GiB}]}
"""
ALIYUNS_PROGRAM = "kubectl-inspect-gpushare"
GPUS = Inventory(2**30, tuple(Card(f"gpu-{n}", "intel", "flex", 16 * 2**30, index=n) for n in range(3)))
# Units on each card of each node, and what a card has: 3 + 7 and 12 of node-1, 2 + 4 of node-2.
USED = {"node-1": [10, 12], "node-2": [6]}
TOTAL = 16


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(NODES) as sandbox:
        sandbox.playbook("site.yml", "--skip-tags", "stages", "-e", CONFIGURATION)
        yield sandbox


@pytest.fixture(scope="module")
def pods(sandbox):
    """The nodes, and pods: two that share a card, one beside them, one of two containers, one without a node."""
    return asyncio.run(create_pods(sandbox))


async def create_pods(sandbox):
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        cluster = Cluster(api, sandbox)
        for name, node, containers in (
            ("three", "node-1", {"main": 3}),
            ("seven", "node-1", {"main": 7}),
            ("twelve", "node-1", {"main": 12}),
            ("two-and-four", "node-2", {"a": 2, "b": 4}),
        ):
            limits = {container: {MEMORY: units} for container, units in containers.items()}
            await cluster.create_pod(name, node=node, containers=limits)
            await cluster.running(name)
        await cluster.create_pod("too-large", node=None, containers={"main": {MEMORY: 20}})
        assert await cluster.refused("too-large")
        return (await cluster.get("/api/v1/nodes"))["items"], (await cluster.get(PODS))["items"]


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """Certificates for an extender and its clients, as files."""
    authority = Authority("ours")
    return write_certificates(
        tmp_path_factory.mktemp("pki"), authority, {"client": authority.issue_client("kube-scheduler")}
    )


@pytest.fixture(scope="module")
def served(sandbox, pods, pki, tmp_path_factory):
    """An extender on the same cluster that serves TLS, and has read it."""
    tls, clients = list_server_options(pki), ["--client-name", "kube-scheduler"]
    arguments = ["--kubeconfig", str(sandbox.kubeconfig), "--dialect", "aliyun", *tls, *clients]
    with Process(tmp_path_factory.mktemp("logs"), *arguments, plain=False) as process:
        asyncio.run(wait_until_ready(process, pki))
        yield process


async def wait_until_ready(process, pki):
    context = ssl.create_default_context(cafile=pki / "ca.crt")
    context.load_cert_chain(pki / "client.crt", pki / "client.key")
    async with client_of(process, context):
        pass


def count_as_aliyuns_program(nodes, pods):
    """Count what `kubectl inspect gpushare` does, from what it reads alone: allocatable, limits and the annotation."""
    counted = {}
    for node in nodes:
        cards, total = (int(node["status"]["allocatable"].get(name, 0)) for name in (COUNT, MEMORY))
        used = Counter(dict.fromkeys(range(cards), 0))
        for pod in pods:
            limits = [each["resources"].get("limits", {}) for each in pod["spec"]["containers"]]
            units = sum(int(each.get(MEMORY, 0)) for each in limits)
            if pod["spec"].get("nodeName") == node["metadata"]["name"] and units:
                # -1 is its word for a pod that has no card yet.
                used[int(pod["metadata"]["annotations"].get(CARD, -1))] += units
        counted[node["metadata"]["name"]] = [used[number] for number in sorted(used)], total // cards
    return counted


def test_aliyun_program_reads_correct_totals(pods):
    assert count_as_aliyuns_program(*pods) == {name: (used, TOTAL) for name, used in USED.items()}


def test_accelkit_table_has_same_totals(sandbox, pods):
    rows = {row[0]: row[2:] for row in table(sandbox.command("inspect", "--layout", "aliyun").stdout)}
    assert rows == {
        "node-1": ["10/16", "12/16", "22/32"],
        "node-2": ["6/16", "-", "6/16"],
    }


def test_aliyun_program_prints_same_table(sandbox, pods):
    program = shutil.which(ALIYUNS_PROGRAM)
    if program is None:
        pytest.skip(f"{ALIYUNS_PROGRAM} is not on PATH")
    environ = {**os.environ, "KUBECONFIG": str(sandbox.kubeconfig)}
    shown = subprocess.run([program], env=environ, capture_output=True, text=True, timeout=30, check=True).stdout
    ours = sandbox.command("inspect", "--layout", "aliyun").stdout
    assert shown.split("\n")[0].split() == ours.split("\n")[0].split()
    # It writes 0/0 for a card that a node does not have; addresses are not the extender's to know.
    expected = [["0/0" if cell == "-" else cell for cell in row] for row in table(ours)]
    assert [row[2:] for row in table(shown)] == [row[2:] for row in expected]
    assert shown.split()[-2:] == ours.split()[-2:] == ["28/48", "(58%)"]


def table(text):
    """Return the rows of the nodes, sorted: name, address, cards, sum."""
    return sorted(line.split() for line in text.splitlines() if line.startswith("node-"))


def test_inspect_returns_json_of_each_system_over_tls(served, sandbox, pods, pki):
    tls = ["--cert", str(pki / "client.crt"), "--key", str(pki / "client.key")]

    def show():
        return curl(served, pki, "/gcushare-scheduler/inspect", *tls)

    # Another test's node may be going just now.
    gcushare = poll_until(show, accept=lambda shown: len(shown["nodes"]) <= len(USED))
    assert [(node["name"], node["totalGCU"], node["usedGCU"], node["availableGCU"]) for node in gcushare["nodes"]] == [
        ("node-1", 32, 22, 10),
        ("node-2", 16, 6, 10),
    ]
    assert {
        node["name"]: [(d["id"], d["totalGCU"], d["usedGCU"], d["availableGCU"]) for d in node["devices"]]
        for node in gcushare["nodes"]
    } == {name: [(n, TOTAL, units, TOTAL - units) for n, units in enumerate(used)] for name, used in USED.items()}
    shared = {(pod["namespace"], pod["name"], pod["usedGCU"]) for pod in gcushare["nodes"][0]["devices"][0]["pods"]}
    assert shared == {("default", "three", 3), ("default", "seven", 7)}
    one = curl(served, pki, "/gcushare-scheduler/inspect/node-2", *tls)
    assert one == {"nodes": [gcushare["nodes"][1]]}

    aliyun = curl(served, pki, "/gpushare-scheduler/inspect", *tls)
    assert {node["name"]: [device["usedGPU"] for device in node["devs"]] for node in aliyun["nodes"]} == USED


def test_request_without_client_certificate_is_refused(served, pki):
    with pytest.raises(subprocess.CalledProcessError):
        curl(served, pki, "/gcushare-scheduler/inspect")


def curl(process, pki, path, *options):
    """Ask as GCUShare's inspect.sh does, which is a curl."""
    command = ["curl", "--silent", "--show-error", "--fail", "--max-time", "10", "--cacert", str(pki / "ca.crt")]
    done = subprocess.run(
        [*command, *options, f"{process.url}{path}"], capture_output=True, text=True, timeout=15, check=True
    )
    return json.loads(done.stdout)


async def test_intels_plugin_finds_the_cards_of_each_container(sandbox, tmp_path):
    with Process(tmp_path, "--kubeconfig", str(sandbox.kubeconfig), "--dialect", "gas") as process:
        async with client_of(process) as extender, world_of(sandbox.kubeconfig) as world:
            node = await create_known_node(extender, world, annotation=encode_inventory(GPUS))
            limits = {
                "first": {I915: "2", MILLICORES: "1000", GPU_MEMORY: str(8 * 2**30)},
                "none": {"cpu": "1"},
                "second": {I915: "1", MILLICORES: "600", GPU_MEMORY: str(16 * 2**30)},
            }
            containers = [
                {"name": name, "image": "busybox", "resources": {"limits": amounts}} for name, amounts in limits.items()
            ]
            pod = await world.pod(spec={"containers": containers})
            assert (await extender.filter(pod, node))["NodeNames"] == [node]
            assert await extender.bind(pod, node) == ""

            written = (await world.read(pod))["metadata"]["annotations"]
            cards = [part.split(",") if part else [] for part in written["gas-container-cards"].split("|")]
            assert [len(each) for each in cards] == [int(amounts.get(I915, 0)) for amounts in limits.values()]
            assert int(written["gas-ts"]) > 10**18
            compute, memory = Counter(), Counter()
            for names, amounts in zip(cards, limits.values(), strict=True):
                for name in names:
                    compute[name] += int(amounts[MILLICORES]) // len(names)
                    memory[name] += int(amounts[GPU_MEMORY]) // len(names)
            assert {name for each in cards for name in each} <= {"card0", "card1", "card2"}
            shown = {f"card{number}": card for number, card in enumerate((await extender.node(node))["cards"])}
            for name in compute:
                assert (shown[name]["used_compute"], shown[name]["used_bytes"]) == (compute[name], memory[name])
