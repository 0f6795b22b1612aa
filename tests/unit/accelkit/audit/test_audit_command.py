"""What `accelkit audit` prints for people and programs, and how it ends."""

import asyncio
import json

import msgspec
import pytest
from aiohttp import web
from click.testing import CliRunner
from fake_api.kubeconfig import write_kubeconfig
from ruamel.yaml import YAML

from accelkit.cli import main
from accelkit.errors import ApiError
from accelkit.inspection.inspection import assemble, inspect_cluster
from accelkit.model.observed_allocations import HeldDevices, HeldPod

AGREED = HeldPod("d", "p", {"c": HeldDevices({"a": 4})}, enforced_by="mps")
STRANGER = HeldPod("d", "ghost", {"c": HeldDevices({"a": 4})}, enforced_by="mps")
NO_EXTENDER = (
    "the ledger is not compared: cannot find the extender in namespace accelkit: there is none; "
    "set its namespace and Service with --namespace and --service, or audit without the ledger with --no-ledger"
)
UNKNOWN_POD = "the kubelet of n allocated a to pod d/ghost, which has no assignment"


class Cluster:
    """A node with a pod, on an API server that `kubeconfig` leads to; the same server is the extender."""

    def __init__(self, server, folder, api):
        self.server, self.kubeconfig, self.api = server, write_kubeconfig(folder, server.url), api
        server.on("GET", "/api.*", self._answer)
        # Body and status of what is answered to who wants a token.
        self.tokens = {"message": "there is none", "reason": "NotFound"}, 404
        server.on("POST", ".*/serviceaccounts/accelkit-inspector/token", lambda _: _respond(*self.tokens))

    def observe(self, *pods, **where):
        self.api.observe("n", *pods, **where)

    def count(self, inspection):
        """Let the extender's ledger hold an inspection."""
        body = msgspec.json.encode(inspection)
        self.server.on("GET", "/inspect", lambda _: web.Response(body=body))

    def audit(self, *arguments, **environ):
        given = ["audit", "--kubeconfig", str(self.kubeconfig), *arguments]
        return CliRunner().invoke(main, given, env=environ, catch_exceptions=False)

    async def _answer(self, request):
        try:
            return web.Response(body=await self.api.get(request.path, query=request.query))
        except ApiError as exc:
            return web.json_response({"message": exc.message}, status=exc.status)


def _respond(body, status):
    return web.json_response(body, status=status)


@pytest.fixture
def cluster(hostile_registry, tmp_path, audited_cluster):
    return Cluster(hostile_registry, tmp_path, audited_cluster({"n": "a"}, {"n": "p"}))


@pytest.mark.parametrize(
    "answer",
    [
        ({"message": "there is none", "reason": "NotFound"}, 404),
        ({"message": "no right", "reason": "Forbidden"}, 403),
        ({"message": "it is starting", "reason": "InternalError"}, 500),
    ],
)
def test_unreadable_ledger_exits_with_code_3(cluster, answer):
    cluster.tokens = answer
    result = cluster.audit("--wait", "0")
    assert result.exit_code == 3
    assert result.stdout.startswith("unreadable_ledger  the ledger is not compared: ")
    assert "audit without the ledger with --no-ledger" in result.stdout
    assert result.stdout.splitlines()[-1] == "No differences in the data that can be compared."


def test_no_ledger_option_exits_with_code_0(cluster):
    result = cluster.audit("--no-ledger", ACCELKIT_EXTENDER=cluster.server.url)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "note  the ledger is not compared, because it was not requested",
        "No differences.",
    ]


def test_unreadable_allocations_exit_with_code_3(cluster):
    cluster.api.put_config_map("n", {"allocations.json": "garbled"})
    result = cluster.audit("--wait", "0", "--no-ledger")
    assert result.exit_code == 3
    assert result.stdout.splitlines()[-1] == "No differences in the data that can be compared."
    assert result.stdout.startswith("unreadable_allocations  the kubelet of n is not compared: cannot read")


def test_difference_is_printed_and_exits_with_code_3(cluster):
    cluster.observe(STRANGER, AGREED)
    result = cluster.audit("--wait", "0")
    assert result.exit_code == 3
    assert result.stdout.splitlines() == [
        f"unreadable_ledger  {NO_EXTENDER}",
        f"unknown_pod  {UNKNOWN_POD}",
        "1 difference.",
    ]


def test_output_is_available_as_json_and_yaml(cluster):
    cluster.observe(STRANGER, AGREED)
    result = cluster.audit("--wait", "0", "-o", "json")
    assert result.exit_code == 3
    assert json.loads(result.stdout) == {
        "findings": [
            {"node": "", "card": "", "pod": "", "kind": "unreadable_ledger", "message": NO_EXTENDER},
            {"node": "n", "card": "", "pod": "d/ghost", "kind": "unknown_pod", "message": UNKNOWN_POD},
        ],
        "notes": [],
    }
    assert YAML(typ="safe").load(cluster.audit("--wait", "0", "-o", "yaml").stdout) == json.loads(result.stdout)


def test_ledger_of_named_extender_is_compared(cluster):
    cluster.count(asyncio.run(inspect_cluster(cluster.api)))
    result = cluster.audit("--extender", cluster.server.url)
    assert (result.exit_code, result.stdout) == (0, "No differences.\n")
    cluster.count(assemble([]))
    result = cluster.audit("--wait", "0", ACCELKIT_EXTENDER=cluster.server.url)
    assert result.exit_code == 3
    assert result.stdout.splitlines() == [
        "ledger_differs  pod d/p [c] on card a of n: the ledger contains nothing, but the assignment contains 4 GiB",
        "1 difference.",
    ]


def test_extender_is_read_through_api_server_without_url(cluster):
    cluster.tokens = {"status": {"token": "t"}}, 201
    proxy = "/api/v1/namespaces/accelkit/services/https:accelkit-extender:read/proxy/inspect"
    cluster.api.documents[proxy] = msgspec.json.encode(asyncio.run(inspect_cluster(cluster.api)))
    assert cluster.audit().stdout == "No differences.\n"
    cluster.api.documents[proxy] = msgspec.json.encode(assemble([]))
    result = cluster.audit("--wait", "0")
    assert result.exit_code == 3
    assert result.stdout.startswith("ledger_differs  pod d/p [c] on card a of n")


def test_certificate_options_without_extender_are_error(cluster):
    result = cluster.audit("--server-name", "x")
    assert result.stderr.startswith("Error: cannot use certificates without an extender; set --extender")


def test_unreachable_extender_is_error(cluster):
    result = cluster.audit("--extender", "http://127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: cannot reach the extender at http://127.0.0.1:1")


def test_namespace_option_selects_namespace_of_reports(cluster):
    cluster.observe(STRANGER, AGREED, namespace="elsewhere")
    assert cluster.audit("--wait", "0", "--no-ledger").exit_code == 0
    assert cluster.audit("--wait", "0", "--no-ledger", "--namespace", "elsewhere").exit_code == 3


def test_a_named_node_without_cards_is_an_error_with_a_next_step(cluster):
    assert cluster.audit("n", "--no-ledger").exit_code == 0
    result = cluster.audit("n", "x")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: cannot find nodes with cards named x; list the nodes with cards by `accelkit inspect`\n"
    )


@pytest.mark.parametrize("arguments", [["--wait", "-1"], ["--kubeconfig", "/"], ["--ca", "/"], ["-o", "xml"]])
def test_invalid_usage_exits_with_code_2(cluster, arguments):
    assert cluster.audit(*arguments).exit_code == 2
