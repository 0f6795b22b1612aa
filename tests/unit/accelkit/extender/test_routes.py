import asyncio
import json
from types import MappingProxyType, SimpleNamespace

import msgspec
import pytest
from support.requests import build_inventory

from accelkit import __version__
from accelkit.errors import InventoryError
from accelkit.extender.foreign_inspect import make_foreign_inspects
from accelkit.extender.metrics import ExtenderMetrics
from accelkit.extender.preemption.verb import PreemptVerb
from accelkit.extender.routes import Routes
from accelkit.extender.simulation.simulator import Simulator
from accelkit.extender.verbs import Verbs
from accelkit.placement.plugged_policies import PluggedPolicy
from accelkit.placement.policies import Policy

DEEP = b'{"Pod": {"metadata": {"uid": "u"}, "later": ' + b"[" * 90_000
MALFORMED = [b"", b"{", b"null", b"[]", b"nonsense", b"\x00", b'{"Pod": 1, "PodName": 1}']


@pytest.fixture
async def service(world):
    """A world behind its routes."""
    world.routes = make_routes(world)
    return world


def make_routes(world, foreign=MappingProxyType({}), policy=Policy.BINPACK):
    metrics = ExtenderMetrics(world.ledger, lambda: 0.0)
    verbs = Verbs(world.ledger, world.feed, policy)
    simulator = Simulator(world.ledger, world.feed, verbs)
    preemption = PreemptVerb(world.ledger, world.feed, policy)
    of = {"simulator": simulator, "preemption": preemption, "readiness": world.readiness, "foreign": foreign}
    return Routes(world.ledger, verbs, world.binder, metrics, **of)


async def call(service, method, path, body=b""):
    reply = await service.routes.handle(method, path, body if isinstance(body, bytes) else json.dumps(body).encode())
    return reply.status, json.loads(reply.body) if reply.content_type == "application/json" else reply.body.decode()


def asking(service, name="p", nodes=("n",)):
    return {"Pod": service.api.pods[name], "NodeNames": list(nodes)}


@pytest.mark.parametrize("prefix", ["", "/gcushare-scheduler", "/gpushare-scheduler", "/scheduler"])
async def test_every_verb_answers_under_every_prefix(service, prefix):
    service.create()
    assert await call(service, "POST", f"{prefix}/filter", asking(service)) == (200, {"NodeNames": ["n"]})
    assert (await call(service, "POST", f"{prefix}/prioritize", asking(service)))[1] == [{"Host": "n", "Score": 0}]
    binding = {"PodName": "p", "PodNamespace": "d", "PodUID": "uid-p", "Node": "n"}
    assert await call(service, "POST", f"{prefix}/bind", binding) == (200, {"Error": ""})
    status, inspection = await call(service, "GET", f"{prefix}/inspect/n")
    assert (status, inspection["nodes"][0]["cards"][0]["used_bytes"]) == (200, 4)


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind"])
@pytest.mark.parametrize("body", MALFORMED)
async def test_malformed_body_is_reported_in_the_error(service, verb, body):
    status, answer = await call(service, "POST", f"/{verb}", body)
    assert (status, list(answer)) == ((400, ["error"]) if verb == "prioritize" else (200, ["Error"]))
    assert f"cannot read the arguments of {verb}" in "".join(answer.values())
    assert service.api.posts == []


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind"])
@pytest.mark.parametrize(
    "body", [DEEP, b'{"Pod": {"metadata": {"uid": "\xff"}}, "PodName": "\xff"}'], ids=["deep", "utf8"]
)
async def test_deeply_nested_or_non_utf8_body_is_bad_input(service, verb, body):
    if verb == "bind":
        body = body.replace(b'"Pod": {"metadata": {"uid": "u"}, ', b"")
    status, _ = await call(service, "POST", f"/{verb}", body)
    assert status == (400 if verb == "prioritize" else 200)


async def test_binding_without_uid_is_refused(service):
    status, answer = await call(
        service, "POST", "/bind", {"PodName": "p", "PodNamespace": "d", "PodUID": "", "Node": "n"}
    )
    assert (status, answer) == (200, {"Error": "PodUID is missing"})
    status, answer = await call(service, "POST", "/bind", {"PodName": "p"})
    assert status == 200
    assert "PodNamespace" in answer["Error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/filter", 405),
        ("PUT", "/prioritize", 405),
        ("POST", "/inspect", 405),
        ("DELETE", "/readyz", 405),
        ("GET", "/", 404),
        ("POST", "/filter/", 404),
        ("GET", "/another/inspect", 404),
        ("GET", "/inspect/nowhere", 404),
        ("GET", "/inspect/", 404),
        ("GET", "/simulate", 405),
        ("POST", "/simulates", 404),
    ],
)
async def test_unknown_path_or_method_is_refused_with_error(service, method, path, status):
    found, answer = await call(service, method, path)
    assert found == status
    assert answer["error"]


async def test_inspect_of_deleted_node_is_not_found(service):
    service.ledger.drop_node("n")
    status, answer = await call(service, "GET", "/inspect/n")
    assert (status, "GET /inspect lists the nodes" in answer["error"]) == (404, True)


NOT_READY = [
    ({"synced": False}, "the cluster has not been read yet"),
    ({"silence": 6.4}, "the API server has been unreachable for 6 s"),
]


@pytest.mark.parametrize(("state", "sentence"), NOT_READY)
async def test_filter_and_bind_fail_until_ready_and_readyz_returns_the_reason(service, state, sentence):
    service.create()
    vars(service).update(state)
    assert await call(service, "GET", "/readyz") == (503, f"{sentence}\n")
    assert await call(service, "GET", "/healthz") == (200, "ok\n")
    assert await call(service, "POST", "/filter", asking(service)) == (200, {"Error": sentence})
    binding = {"PodName": "p", "PodNamespace": "d", "PodUID": "uid-p", "Node": "n"}
    assert await call(service, "POST", "/bind", binding) == (200, {"Error": sentence})
    assert (service.api.posts, service.used()) == ([], {})
    service.synced, service.silence = True, 5.0
    assert await call(service, "GET", "/readyz") == (200, "ok\n")
    assert await call(service, "POST", "/bind", binding) == (200, {"Error": ""})


@pytest.mark.parametrize("name", ["absent", "plain", "xx"])
async def test_inspect_under_dialect_path_uses_the_dialect_format(service, name):
    service.ledger.put_node("plain", None)
    service.routes = make_routes(service, make_foreign_inspects(["gcushare"], {}.get))
    status, answer = await call(service, "GET", f"/gcushare-scheduler/inspect/{name}")
    assert (status, answer) == (404, {"error": f"node: {name} is not the gcushare node"})
    service.ledger.put_node("x", build_inventory("c", memory=7))
    _, answer = await call(service, "GET", "/gcushare-scheduler/inspect/x")
    assert answer["nodes"][0]["totalGCU"] == 7
    service.ledger.drop_node("x")
    for path, count in (("/gcushare-scheduler/inspect", 2), ("/gcushare-scheduler/inspect/n/", 1)):
        status, answer = await call(service, "GET", path)
        assert (status, [node["totalGCU"] for node in answer["nodes"]]) == (200, [32] * count)


@pytest.mark.parametrize(
    "path", ["/inspect", "/inspect/n", "/gcushare-scheduler/inspect", "/gpushare-scheduler/inspect/n"]
)
async def test_inspect_is_unavailable_before_first_sync(service, path):
    service.routes = make_routes(service, make_foreign_inspects(["aliyun"], {}.get))
    service.silence = 60.0
    assert (await call(service, "GET", path))[0] == 200
    service.synced = False
    assert await call(service, "GET", path) == (503, {"error": "the cluster has not been read yet"})


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind"])
async def test_verbs_close_the_connection_on_non_leading_replica(service, verb):
    service.create()
    service.leader = "other"
    reply = await service.routes.handle("POST", f"/{verb}", msgspec.json.encode(asking(service)))
    assert (reply.status, reply.close) == (503, True)
    assert json.loads(reply.body) == {"error": "other leads"}
    assert (await call(service, "GET", "/inspect"))[0] == 200


async def test_inspect_lists_only_nodes_with_cards_or_unknown_inventory(service):
    service.ledger.put_node("bare", None)
    service.ledger.put_node("odd", InventoryError("garbled"))
    _, inspection = await call(service, "GET", "/inspect")
    assert [(node["name"], node["state"]) for node in inspection["nodes"]] == [
        ("m", "shared"),
        ("n", "shared"),
        ("odd", "unknown"),
    ]
    assert inspection["totals"]["cards"] == 4


async def test_version_is_plain_text(service):
    status, text = await call(service, "GET", "/version")
    assert status == 200
    assert text == f"v{__version__}\n"


@pytest.mark.parametrize(("verb", "status"), [("filter", 200), ("prioritize", 400), ("bind", 200)])
async def test_error_replies_are_counted_by_verb(service, verb, status):
    assert (await call(service, "POST", f"/{verb}", b"{"))[0] == status
    _, text = await call(service, "GET", "/metrics")
    assert f'accelkit_extender_errors_total{{verb="{verb}"}} 1.0' in text.splitlines()
    assert f'accelkit_extender_request_duration_seconds_count{{verb="{verb}"}} 1.0' in text.splitlines()


async def test_successful_reply_keeps_connection_and_counts_no_error(service):
    service.create()
    for method, path, body in [
        ("POST", "/filter", asking(service)),
        ("POST", "/prioritize", asking(service)),
        ("GET", "/inspect", b""),
        ("GET", "/metrics", b""),
    ]:
        reply = await service.routes.handle(method, path, msgspec.json.encode(body) if body else b"")
        assert (reply.status, reply.close) == (200, False)
    _, text = await call(service, "GET", "/metrics")
    assert "accelkit_extender_errors_total{" not in text


async def test_inspect_yields_to_event_loop_every_fifty_nodes(service):
    chances = 0

    async def count():
        nonlocal chances
        while True:
            await asyncio.sleep(0)
            chances += 1

    for number in range(98):
        service.ledger.put_node(f"bare-{number}", None)
    service.ledger.put_node("last", InventoryError("garbled"))
    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    status, _ = await call(service, "GET", "/inspect")
    counting.cancel()
    # 101 nodes: before the 1st, the 51st and the 101st.
    assert (status, chances) == (200, 3)


async def test_filter_result_uses_field_names_of_go_types(service):
    service.create(memory=20)
    reply = await service.routes.handle("POST", "/filter", msgspec.json.encode(asking(service)))
    assert set(json.loads(reply.body)) == {"NodeNames", "FailedNodes", "FailedAndUnresolvableNodes"}


@pytest.mark.parametrize(("method", "path"), [("GET", "/inspect"), ("POST", "/bind"), ("POST", "/healthz")])
async def test_probe_port_serves_no_pod_data_and_no_verbs(service, method, path):
    reply = await service.routes.handle_probe(method, path, b"")
    assert (reply.status, service.api.posts) == (404, [])


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/version", "/metrics"])
async def test_probe_port_serves_health_version_and_metrics(service, path):
    reply = await service.routes.handle_probe("GET", path, b"")
    assert (reply.status, reply.content_type.partition(";")[0]) == (200, "text/plain")
    assert (await service.routes.handle_probe("POST", path, b"")).status == 404


async def test_failing_policy_plugin_is_returned_as_error_and_logged_once(service, caplog):
    def fail(*_):
        raise ZeroDivisionError

    service.create(**{"accelkit.io/request": '{"c": {"compute": 1}}'})
    failing = PluggedPolicy("tight", SimpleNamespace(rank_card=fail, score_node=fail), "acme 1.0")
    service.routes = make_routes(service, policy=failing)
    said = "cannot use policy tight of acme 1.0: "
    for _ in range(2):
        status, answer = await call(service, "POST", "/prioritize", asking(service))
        assert (status, said in answer["error"]) == (500, True)
    assert [each.getMessage().startswith(said) for each in caplog.records] == [True]
    status, answer = await call(service, "POST", "/filter", asking(service))
    assert (status, said in answer["Error"]) == (200, True)


async def test_simulation_returns_results_of_the_verbs_and_changes_nothing(service):
    service.create()
    for prefix in ("", "/gcushare-scheduler"):
        status, answer = await call(service, "POST", f"{prefix}/simulate", {"pod": service.api.pods["p"]})
        assert (status, [(node["name"], node["fits"]) for node in answer["nodes"]]) == (200, [("m", True), ("n", True)])
        assert answer["nodes"][0]["assignment"] == {"c": [{"card": "a", "memory_bytes": 4}]}
    assert (service.used(), service.api.posts) == ({}, [])


async def test_any_synced_replica_answers_simulations(service):
    service.create()
    question = {"pod": service.api.pods["p"], "nodes": ["n"]}
    service.leader, service.silence = "other", 60.0
    assert (await call(service, "POST", "/simulate", question))[0] == 200
    service.synced = False
    assert await call(service, "POST", "/simulate", question) == (503, {"error": "the cluster has not been read yet"})


@pytest.mark.parametrize("body", [*MALFORMED, DEEP, b'{"pod": {"metadata": {"uid": "\xff"}}}', b'{"pod": {}}'])
async def test_malformed_simulation_request_returns_400(service, body):
    status, answer = await call(service, "POST", "/simulate", body)
    assert status == 400
    assert answer["error"].startswith("accelkit cannot read the request body: ")


async def test_simulation_request_with_unknown_field_is_rejected(service):
    service.create()
    question = {"pod": service.api.pods["p"], "witout": ["d/x"]}
    status, answer = await call(service, "POST", "/simulate", question)
    assert (status, "witout" in answer["error"]) == (400, True)


async def test_oversized_simulation_request_is_rejected(service):
    status, answer = await call(service, "POST", "/simulate", b" " * (256 * 1024 + 1))
    assert (status, answer) == (413, {"error": "the request body is longer than 262144 bytes"})
