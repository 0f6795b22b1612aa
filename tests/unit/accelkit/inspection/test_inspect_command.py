"""What `accelkit inspect` prints for people and programs, and how it ends."""

import json

import msgspec
import pytest
from aiohttp import web
from click.testing import CliRunner
from fake_api.kubeconfig import write_kubeconfig
from registries.hostile import HostileRegistry
from registries.tls import serving
from ruamel.yaml import YAML
from support.nodes import build_node
from support.pods import build_pod
from support.requests import build_inventory

from accelkit.cli import main
from accelkit.inspection.inspection import Inspection
from accelkit.kube.paths import NODES, PODS
from accelkit.model.assignment import Share

GIB = 2**30


def run(*arguments, **environ):
    return CliRunner().invoke(main, ["inspect", *map(str, arguments)], env=environ, catch_exceptions=False)


@pytest.fixture
def extender(hostile_registry, answer, inspection):
    """An extender that holds the inspection of these tests."""
    answer(hostile_registry, "/inspect", inspection)
    return hostile_registry


@pytest.fixture
def kubeconfig(hostile_registry, answer, tmp_path):
    """The file that leads to an API server with two nodes, and a pod on one of them."""

    nodes = [
        build_node(name, build_inventory(card, memory=16 * GIB, unit_bytes=GIB))
        for name, card in (("n", "a"), ("m", "b"))
    ]
    pod = build_pod("p", memory="4", assigned={"c": (Share("a", 4 * GIB),)}, metadata={"uid": "u"}, nodeName="n")
    answer(hostile_registry, NODES, {"metadata": {}, "items": nodes})
    answer(hostile_registry, PODS, {"metadata": {}, "items": [pod]})
    return write_kubeconfig(tmp_path, hostile_registry.url)


def test_inspect_prints_table_by_default(extender):
    result = run("--extender", extender.url)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "n  2 cards, 20 GiB of 32 GiB used",
        "  a  ██████░░░░░░░░░░░░░░░░░░      4 GiB of 16 GiB    m",
        "     └ d/p [c]                     4 GiB",
        "  b  ████████████████████████     16 GiB of 16 GiB    m",
        "     └ d/p [w]                 whole card",
        "",
        "1 node, 2 cards, 20 GiB of 32 GiB used, unit 1 GiB",
    ]


def test_aliyun_layout_prints_table_of_kubectl_inspect_gpushare(extender):
    result = run("--layout", "aliyun", ACCELKIT_EXTENDER=extender.url)
    assert result.stdout.splitlines()[:2] == [
        "NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  GPU Memory(GiB)",
        "n     -          4/16                   16/16                  20/32",
    ]


def test_inspect_prints_json_and_yaml(extender, inspection):
    shown = run("--extender", extender.url, "-o", "json").stdout
    assert msgspec.json.decode(shown, type=Inspection) == inspection
    assert YAML(typ="safe").load(run("--extender", extender.url, "-o", "yaml").stdout) == json.loads(shown)


def test_node_argument_requests_one_node(hostile_registry, answer, inspection):
    answer(hostile_registry, "/inspect/n", inspection)
    assert run("n", "--extender", hostile_registry.url).exit_code == 0
    assert [each.path for each in hostile_registry.requests] == ["/inspect/n"]


def test_extender_error_is_one_line_with_exit_code_1(hostile_registry, answer):
    answer(hostile_registry, "/inspect/x", {"error": "there is no node 'x'"}, status=404)
    result = run("x", "--extender", hostile_registry.url)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "Error: there is no node 'x'\n")


def test_tls_options_are_used_for_the_extender(tmp_path, answer, inspection):
    context, authority = serving(tmp_path, "extender.accelkit.svc")
    chain = tmp_path / "server.pem"
    with HostileRegistry(tls=context) as registry:
        answer(registry, "/inspect", inspection)
        given = ["--extender", registry.url, "--ca", authority, "--cert", chain, "--key", chain]
        assert run(*given, "--server-name", "extender.accelkit.svc").exit_code == 0
        refused = run(*given)
    assert refused.exit_code == 1
    assert f"Error: cannot reach the extender at {registry.url}" in refused.stderr


def test_tls_options_without_extender_are_an_error():
    result = run("--server-name", "x", KUBECONFIG="/none")
    assert result.stderr.startswith("Error: cannot use certificates without an extender; set --extender")


@pytest.mark.parametrize("option", ["--ca", "--cert", "--key", "--kubeconfig"])
def test_directory_in_place_of_a_file_is_a_usage_error(tmp_path, option):
    result = run(option, tmp_path)
    assert result.exit_code == 2
    assert "is a directory" in result.stderr


def test_from_api_option_reads_from_api_server(kubeconfig):
    shown = json.loads(run("--from-api", "-o", "json", KUBECONFIG=str(kubeconfig)).stdout)
    cards = {card["id"]: card["used_bytes"] for node in shown["nodes"] for card in node["cards"]}
    assert cards == {"a": 4 * GIB, "b": 0}
    one = json.loads(run("n", "--from-api", "--kubeconfig", kubeconfig, "-o", "json").stdout)
    assert [node["name"] for node in one["nodes"]] == ["n"]


def test_unknown_node_is_an_error_with_next_step(kubeconfig):
    result = run("x", "--from-api", "--kubeconfig", kubeconfig)
    assert result.exit_code == 1
    assert result.stderr == "Error: node 'x' does not exist; list the nodes with cards by `accelkit inspect`\n"


def serve_through_the_proxy(server, answer, inspection, namespace="accelkit", service="accelkit-extender"):
    """Let an API server issue tokens and proxy to an extender."""
    services, accounts = (f"/api/v1/namespaces/{namespace}/{plural}" for plural in ("services", "serviceaccounts"))
    token = f"{accounts}/accelkit-inspector/token"
    server.on("POST", token, lambda _: web.json_response({"status": {"token": "t"}}))
    answer(server, f"{services}/https:{service}:read/proxy/inspect", inspection)


def test_inspect_uses_the_service_proxy_by_default(hostile_registry, answer, inspection, kubeconfig):
    serve_through_the_proxy(hostile_registry, answer, inspection)
    result = run("-o", "json", KUBECONFIG=str(kubeconfig))
    assert msgspec.json.decode(result.stdout, type=Inspection) == inspection
    assert hostile_registry.requests[-1].headers["X-Accelkit-Token"] == "t"


def test_namespace_and_service_options_locate_the_extender(hostile_registry, answer, inspection, kubeconfig):
    serve_through_the_proxy(hostile_registry, answer, inspection, "x", "y")
    assert run("--namespace", "x", "--service", "y", "--kubeconfig", kubeconfig).exit_code == 0
