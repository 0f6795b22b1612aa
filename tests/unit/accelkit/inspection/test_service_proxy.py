"""The extender behind the API server's service proxy."""

from types import SimpleNamespace

import msgspec
import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError, NoExtenderError, ServiceError
from accelkit.inspection import service_proxy as module
from accelkit.inspection.service_proxy import ProxiedExtender
from accelkit.inspection.simulation import NodeSimulation, Simulation, SimulationQuestion
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import Pod

PROXY = "/api/v1/namespaces/x/services/https:s:read/proxy/inspect"
TOKEN = "/api/v1/namespaces/x/serviceaccounts/accelkit-inspector/token"  # noqa: S105 - a path


@pytest.fixture
def api(inspection):
    api = FakeApi()
    api.documents |= {PROXY: msgspec.json.encode(inspection), f"{PROXY}/a%2Fb": msgspec.json.encode(inspection)}
    api.reviews[TOKEN] = lambda _: {"status": {"token": f"token {len(api.requests)}"}}
    return api


@pytest.fixture
def extender(api):
    return ProxiedExtender(api, "x", "s")


async def test_query_sends_token_for_the_inspect_audience(api, extender, inspection):
    assert await extender.query() == inspection
    token, asked = api.requests
    assert (token.method, token.path) == ("POST", TOKEN)
    assert token.body == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": ["accelkit.io/inspect"], "expirationSeconds": 600},
    }
    assert (asked.path, asked.headers) == (PROXY, {"X-Accelkit-Token": "token 1"})


async def test_node_name_is_escaped_in_the_path(api, extender, inspection):
    assert await extender.query("a/b") == inspection
    assert api.requests[-1].path == f"{PROXY}/a%2Fb"


async def test_token_is_renewed_after_half_its_lifetime(api, extender, monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    await extender.query()
    clock.now += 299
    await extender.query()
    clock.now += 2
    await extender.query()
    assert [request.method for request in api.requests] == ["POST", "GET", "GET", "POST", "GET"]


async def test_extender_error_is_returned_unchanged(api, extender):
    api.fail(ApiError("there is no node 'x'", status=404), path="proxy")
    with pytest.raises(ServiceError) as raised:
        await extender.query("x")
    assert str(raised.value) == "there is no node 'x'"
    assert not isinstance(raised.value, NoExtenderError)


@pytest.mark.parametrize("path", ["serviceaccounts", "proxy"])
async def test_missing_extender_is_distinguished_from_refusal(api, extender, path):
    api.fail(ApiError("not found", status=404, reason="NotFound"), path=path)
    with pytest.raises(NoExtenderError, match=r"cannot find the extender in namespace x: not found; set its"):
        await extender.query()


DEPLOYMENT = "/apis/apps/v1/namespaces/x/deployments/s"


def deploy(*args):
    """Return the Deployment of an extender that is started with these arguments."""
    return msgspec.json.encode({"spec": {"template": {"spec": {"containers": [{"name": "extender", "args": args}]}}}})


async def test_local_extender_without_service_is_queried_at_address_from_deployment(
    api, extender, inspection, hostile_registry, answer
):
    api.server = "https://127.0.0.1:6443"
    api.fail(ApiError("not found", status=404, reason="NotFound"), path="serviceaccounts")
    api.documents[DEPLOYMENT] = deploy(
        "extender", "--listen", hostile_registry.url.removeprefix("http://"), "--plain-http"
    )
    answer(hostile_registry, "/inspect", inspection)
    assert await extender.query() == inspection


@pytest.mark.parametrize(
    ("server", "document"),
    [
        ("https://10.0.0.1:6443", deploy("extender", "--listen", "127.0.0.1:1", "--plain-http")),
        ("https://127.0.0.1:6443", deploy("extender", "--listen", "127.0.0.1:1")),
        ("https://127.0.0.1:6443", deploy("extender", "--listen", "10.0.0.1:1", "--plain-http")),
        ("https://127.0.0.1:6443", deploy("--plain-http", "--listen")),
        ("https://127.0.0.1:6443", b"<html>"),
        ("https://127.0.0.1:6443", b'{"spec": null}'),
        ("https://127.0.0.1:6443", None),
    ],
)
async def test_only_plain_http_loopback_extender_of_local_cluster_is_queried(api, extender, server, document):
    api.server = server
    api.fail(ApiError("not found", status=404, reason="NotFound"), path="serviceaccounts")
    if document is None:
        api.fail(ApiError("no such Deployment", status=404, reason="NotFound"), path=DEPLOYMENT)
    else:
        api.documents[DEPLOYMENT] = document
    with pytest.raises(NoExtenderError, match=r"cannot find the extender in namespace x: not found"):
        await extender.query()


@pytest.mark.parametrize("path", ["serviceaccounts", "proxy"])
async def test_missing_permission_is_reported_with_the_required_role(api, extender, path):
    api.fail(ApiError("User x cannot", status=403, reason="Forbidden"), path=path)
    with pytest.raises(ServiceError, match="cannot read from the extender: User x cannot") as raised:
        await extender.query()
    assert "the Role accelkit-inspector-user in namespace x" in raised.value.next_step
    assert "--from-api" in raised.value.next_step


@pytest.mark.parametrize(
    "error",
    [
        ApiError("no endpoints available", status=503, reason="ServiceUnavailable"),
        ApiError("GET https://fake received no response"),
    ],
)
async def test_unreachable_extender_is_an_error(api, extender, error):
    api.fail(error, path="proxy")
    with pytest.raises(ServiceError, match=f"cannot reach the extender through https://fake: {error.message}"):
        await extender.query()


async def test_foreign_response_is_an_error(api, extender):
    api.documents[PROXY] = b"<html>"
    with pytest.raises(ServiceError, match="it is not the response of an accelkit extender"):
        await extender.query()


SIMULATE = PROXY.replace("inspect", "simulate")
QUESTION = SimulationQuestion(Pod(ObjectMeta(name="p", namespace="d")), ["n"])
SIMULATION = Simulation(policy="binpack", unit_bytes=1, nodes=(NodeSimulation("n", fits=True),))


@pytest.fixture
def answering(api):
    api.reviews[SIMULATE] = lambda _: SIMULATION
    return api


async def test_simulation_is_posted_with_token(answering, extender):
    assert await extender.simulate(QUESTION) == SIMULATION
    asked = answering.requests[-1]
    assert (asked.method, asked.path, asked.headers) == ("POST", SIMULATE, {"X-Accelkit-Token": "token 1"})
    assert msgspec.to_builtins(asked.body) == {
        "pod": {"metadata": {"name": "p", "namespace": "d"}, "spec": {}, "status": {}},
        "nodes": ["n"],
    }


@pytest.mark.parametrize(
    ("status", "sentence"), [(404, "there is no POST /simulate"), (405, "this port is for reading")]
)
async def test_extender_without_simulation_support_is_reported_as_outdated(api, extender, status, sentence):
    api.fail(ApiError(sentence, status=status), path="simulate")
    with pytest.raises(
        ServiceError, match=f"cannot explain pods with this version of the extender: {sentence}"
    ) as raised:
        await extender.simulate(QUESTION)
    assert raised.value.next_step == "upgrade the extender to the version of this command with site.yml"
    assert not isinstance(raised.value, NoExtenderError)


async def test_simulation_error_of_extender_is_returned_unchanged(answering, extender):
    answering.fail(ApiError("another simulation is in progress; try again", status=503), path="simulate")
    with pytest.raises(ServiceError, match=r"^another simulation is in progress; try again$"):
        await extender.simulate(QUESTION)


async def test_next_step_contains_option_and_alternative_of_the_caller(api):
    extender = ProxiedExtender(api, "x", "s", option="--accelkit-namespace", instead="look")
    for reason, step in (
        ("NotFound", "set its namespace and Service with --accelkit-namespace and --service, or look"),
        ("Forbidden", "ask an administrator for the Role accelkit-inspector-user in namespace x, or look"),
        ("Gone", "look"),
    ):
        api.fail(ApiError("no", status={"NotFound": 404, "Forbidden": 403, "Gone": 410}[reason], reason=reason))
        with pytest.raises(ServiceError) as raised:
            await extender.simulate(QUESTION)
        assert raised.value.next_step == step


async def test_invalid_simulation_response_is_an_error(answering, extender):
    answering.reviews[SIMULATE] = lambda _: {"nodes": 1}
    with pytest.raises(ServiceError, match="it is not the response of an accelkit extender"):
        await extender.simulate(QUESTION)
