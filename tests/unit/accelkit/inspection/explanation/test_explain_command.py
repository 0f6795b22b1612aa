"""What `accelkit explain` prints for people and programs, and how it ends."""

import json

import pytest
from aiohttp import web
from click.testing import CliRunner
from ruamel.yaml import YAML

from accelkit.cli import main
from accelkit.kube.paths import build_pod_path
from accelkit.ledger.holding import UnassignedPod
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest

FULL = "insufficient accelkit.io/memory in one card"
SAID = f"0/2 nodes are available: 2 {FULL}."
LESS = "1 GiB less memory for container main (7 GiB instead of 8 GiB): the pod would get card node-2.0 of node-2"
FITS = "nodes that share cards: the message of kube-scheduler contains the reason."
GIB = 2**30


@pytest.fixture
def run(explained):
    def run(*arguments, **environ):
        given = {"KUBECONFIG": str(explained.kubeconfig), **environ}
        return CliRunner().invoke(main, ["explain", "p", "-n", "d", *arguments], env=given, catch_exceptions=False)

    return run


def test_explain_prints_answer_first_and_groups_equal_nodes(explained, run):
    explained.node("node-1", 10, 12)
    explained.node("node-2", 9, 15)
    explained.pod(8, said=SAID)
    result = run()
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "Pod d/p is pending: it does not fit on any of the 2 nodes that share cards.",
        f"Smallest change: {LESS}.",
        f"kube-scheduler (Unschedulable): {SAID}",
        "Container main requests 8 GiB of one card.",
        "",
        f"2 nodes: {FULL} (node-2, node-1)",
        f"  smallest change: {LESS}",
        "  or: if pod d/node-2-0 ended: the pod would get card node-2.0 of node-2",
        "  cards of node-2:",
        "    node-2.0  7 GiB of 16 GiB free, 8 GiB requested",
        "    node-2.1  1 GiB of 16 GiB free, 8 GiB requested",
    ]


def test_all_option_lists_each_node(explained, run):
    explained.node("node-1", 10, 12)
    explained.node("node-2", 9, 15)
    explained.node("node-3")
    explained.pod(8, said=SAID)
    shown = run("--all").stdout.splitlines()
    assert [line for line in shown if not line.startswith(" ")][3:] == [
        *("", f"node-1: {FULL}", "", f"node-2: {FULL}", "", "node-3: the pod fits")
    ]
    assert "  change: 2 GiB less memory for container main (6 GiB instead of 8 GiB): the pod would get" in (
        next(line for line in shown if line.startswith("  change: 2"))
    )


def test_explain_quotes_kube_scheduler_if_the_pod_fits(explained, run):
    explained.node("node-1", 10, 12)
    explained.node("node-2")
    explained.node("node-3", 4)
    explained.pod(8, said="0/3 nodes are available: 3 node(s) were unschedulable.")
    shown = run().stdout.splitlines()
    assert shown[:2] == [
        f"Pod d/p is pending, but it fits on 2 of 3 {FITS}",
        "kube-scheduler (Unschedulable): 0/3 nodes are available: 3 node(s) were unschedulable.",
    ]
    assert shown[4:6] == [
        "2 nodes: the pod fits (node-3, node-2)",
        "  node-3, score 2: container main would get node-3.0",
    ]


def test_node_option_limits_the_simulation_to_selected_nodes(explained, run):
    for number in range(9):
        explained.node(f"node-{number}", 16, 16)
    explained.ledger.put_node("bare", None)
    explained.pod(8, said=SAID)
    assert "9 nodes: " in run().stdout
    assert f"9 nodes: {FULL} (node-0, node-1, node-2, node-3, node-4, node-5 and 3 more)" in run().stdout
    shown = run("--node", "node-3", "--node", "bare").stdout.splitlines()
    assert shown[0] == "Pod d/p is pending: it does not fit on any of the 2 selected nodes."
    assert shown[1].startswith("Smallest change: if pod d/node-3-")
    assert "1 node: node has no accelkit inventory (bare)" in shown
    assert explained.questions[-1]["nodes"] == ["node-3", "bare"]
    alone = run("--node", "bare").stdout.splitlines()
    assert alone[0] == "Pod d/p is pending: it does not fit on the only selected node."
    assert alone[1].startswith("Smallest change: once the node shares its cards")


def test_without_option_simulates_deletion_of_pods(explained, run):
    explained.node("node-1", 10, 12)
    explained.pod(8, said=SAID)
    answer = run("--without", "d/node-1-0").stdout.splitlines()[0]
    assert answer == "Without d/node-1-0, pod d/p would fit on 1 of 1 node that shares cards."
    shown = run("--without", "d/other").stdout
    assert shown.startswith("Even without d/other, pod d/p would be pending: it does not fit on the only node that")
    assert "Pod d/other holds no card, so its deletion frees nothing." in shown


def test_without_option_uses_namespace_of_the_pod_by_default(explained, run):
    explained.node("node-1")
    explained.pod(8)
    uid = "0a1b2c3d-0000-4000-8000-00000000000f"
    run("--without", "other", "--without", "team/x", "--without", uid)
    assert explained.questions[-1]["without"] == ["d/other", "team/x", uid]


def test_explain_prints_json_and_yaml(explained, run):
    explained.node("node-1", 10, 12)
    explained.pod(8, said=SAID)
    shown = json.loads(run("-o", "json").stdout)
    assert (shown["state"], shown["scheduler"]["message"], shown["version"]) == ("pending", SAID, 1)
    (node,) = shown["simulation"]["nodes"]
    assert (node["sentence"], node["changes"][0]["after"]) == (FULL, 6 * GIB)
    assert YAML(typ="safe").load(run("-o", "yaml").stdout) == shown


def test_only_fields_read_by_filter_are_sent(explained, run):
    explained.node("node-1")
    explained.pod(8, request={"main": {"numa": "single"}})
    assert run().exit_code == 0
    assert explained.questions == [
        {
            "pod": {
                "metadata": {
                    "name": "p",
                    "namespace": "d",
                    "uid": "uid-p",
                    "annotations": {"accelkit.io/request": '{"main": {"numa": "single"}}'},
                },
                "spec": {"containers": [{"name": "main", "resources": {"limits": {"accelkit.io/memory": 8}}}]},
                "status": {"phase": "Pending"},
            }
        }
    ]


def test_bound_pod_is_not_pending_and_its_cards_are_listed(explained, run):
    explained.node("node-1", 10)
    request = PodRequest(
        (ContainerRequest("main", Kind.APP, 1, 4 * GIB), ContainerRequest("w", Kind.APP, 1, whole=True))
    )
    explained.ledger.reserve(PodRef("d", "p", "uid-p"), "node-1", request, "binpack")
    explained.pod(4, node="node-1")
    result = run()
    assert result.exit_code == 0
    assert result.stdout == (
        "Pod d/p is not pending: it is bound to node node-1, and it holds 4 GiB of card node-1.0 in container "
        "main; the whole of card node-1.1 in container w.\n"
    )
    shown = json.loads(run("-o", "json").stdout)
    assert (shown["state"], shown["node"]) == ("bound", "node-1")
    assert shown["shares"][0] == {
        "container": "main",
        "card": "node-1.0",
        "model": "m",
        "memory_bytes": 4 * GIB,
        "whole": False,
        "stage": "reserved",
    }
    assert explained.questions == []


def test_bound_pod_with_unknown_cards_is_reported(explained, run):
    explained.node("node-1")
    explained.pod(4, node="node-1")
    assert run().stdout.endswith("bound to node node-1, and the extender has no record of any card that it holds.\n")
    request = PodRequest((ContainerRequest("main", Kind.APP, 1, 4 * GIB),))
    explained.ledger.confirm_unassigned(UnassignedPod(PodRef("d", "p", "uid-p"), "node-1", request, "it has none"))
    assert run().stdout.endswith("and it holds cards, but their IDs are unknown: it has none.\n")
    explained.pod(4, node="stranger")
    assert run().stdout.endswith("and the cards that it holds are unknown (there is no node 'stranger').\n")


def test_bound_pod_without_cards_sends_no_extender_request(explained, run):
    explained.pod(limits={"cpu": "1"}, node="node-1")
    assert run().stdout == "Pod d/p is not pending: it is bound to node node-1 and requests no card.\n"
    assert not [each for each in explained.server.requests if "proxy" in each.path]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_is_not_pending(explained, run, phase):
    explained.pod(4, node="node-1", phase=phase)
    assert run().stdout == f"Pod d/p is not pending: it has ended ({phase}) and holds no card.\n"


def test_pending_pod_without_cards_shows_message_of_kube_scheduler(explained, run):
    explained.node("node-1")
    explained.pod(limits={"cpu": "1"}, said="0/1 nodes are available: 1 Insufficient cpu.")
    assert run().stdout.splitlines() == [
        "Pod d/p is pending, but it requests no card, so accelkit excludes no node for it.",
        "kube-scheduler (Unschedulable): 0/1 nodes are available: 1 Insufficient cpu.",
    ]


def test_ungrantable_request_is_the_answer(explained, run):
    explained.node("node-1")
    explained.pod(limits={"accelkit.io/memory": 1, "accelkit.io/cards": 1})
    answer = run().stdout.splitlines()[0]
    assert answer.startswith("Pod d/p is pending, because its request cannot be granted: container main")


def test_cluster_without_shared_nodes_prints_next_step(explained, run):
    explained.pod(4)
    assert run().stdout.splitlines()[0] == (
        "Pod d/p is pending: no node shares cards. Label nodes with accelkit.io/share=true and run the agent."
    )


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (
            {"reason": "NotFound", "message": "x"},
            404,
            "pod 'p' does not exist in namespace 'd'; set the pod's namespace with",
        ),
        ({"reason": "Forbidden", "message": "no"}, 403, "cannot read the pod: no; ask an administrator for"),
        ([], 200, "cannot decode pod d/p"),
    ],
)
def test_unreadable_pod_is_an_error(explained, run, answer, status, words):
    explained.server.on("GET", build_pod_path("d", "p"), lambda _: web.json_response(answer, status=status))
    result = run()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {words}")


def test_missing_extender_is_an_error_with_next_step(explained, run):
    explained.pod(4)
    answer = {"reason": "NotFound", "message": 'serviceaccounts "accelkit-inspector" not found'}
    explained.server.on("POST", ".*", lambda _: web.json_response(answer, status=404))
    result = run("--accelkit-namespace", "x")
    assert result.exit_code == 1
    assert "cannot find the extender in namespace x" in result.stderr
    assert (
        "set its namespace and Service with --accelkit-namespace and --service, or use `accelkit inspect --from-api`"
        in result.stderr
    )


def test_extender_option_sets_the_url(explained, run):
    explained.node("node-1")
    explained.pod(4)
    assert run("--extender", explained.server.url).exit_code == 0
    assert [each.path for each in explained.server.requests] == [build_pod_path("d", "p"), "/simulate"]
    explained.pod(4, node="node-1")
    assert run(ACCELKIT_EXTENDER=explained.server.url).exit_code == 0
    result = run("--extender", "http://127.0.0.1:1")
    assert "the cards that it holds are unknown (cannot reach the extender at http://127.0.0.1:1" in result.stdout
    explained.pod(4)
    result = run("--extender", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert "Error: cannot reach the extender at http://127.0.0.1:1" in result.stderr
    assert "set its URL with --extender, or use `accelkit inspect --from-api` to list free cards" in result.stderr
