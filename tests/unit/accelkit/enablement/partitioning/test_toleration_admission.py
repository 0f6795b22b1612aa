import copy
from http import HTTPStatus

import pytest

from accelkit.enablement.partitioning.admission import check_tolerations
from accelkit.errors import ApiError
from accelkit.kube.paths import NODES

MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"
PODS = "/api/v1/namespaces/accelkit/pods"


def admit(request):
    """Answer as an API server whose ExtendedResourceToleration is on."""
    pod = copy.deepcopy(request.body)
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    pod["spec"]["tolerations"] = [
        {"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in limits if "/" in name
    ]
    return pod


@pytest.fixture
def api(api):
    api.store(NODES, {"metadata": {"name": "a"}})
    return api


async def check(api, *keys):
    return await check_tolerations(
        api, keys=keys, tainted=["a"], resources=[MEMORY, CARDS], card_resources=[MEMORY, CARDS], namespace="accelkit"
    )


async def test_admission_is_tested_by_dry_run_without_creating_pods(api):
    api.reviews[PODS] = lambda request: request.body
    tolerance = await check(api, MEMORY)
    assert tolerance.repelled == {MEMORY: (MEMORY,), CARDS: (MEMORY,)}
    assert [request.query for request in api.writes] == [{"dryRun": "All"}] * 2


async def test_admission_plugin_adds_toleration_only_for_resource_of_taint(api):
    api.reviews[PODS] = admit
    assert (await check(api, MEMORY)).repelled == {CARDS: (MEMORY,)}
    # Each of two taints repels who asks for the other resource.
    assert (await check(api, MEMORY, CARDS)).repelled == {MEMORY: (CARDS,), CARDS: (MEMORY,)}


async def test_refused_dry_run_is_reported_as_unknown(api):
    api.fail(ApiError("quota", status=HTTPStatus.FORBIDDEN), "POST", "pods", times=None)
    tolerance = await check(api, MEMORY)
    assert tolerance.repelled == {}
    assert set(tolerance.unknown) == {MEMORY, CARDS}


async def test_unavailable_api_server_raises_error(api):
    api.fail(ApiError("down", status=HTTPStatus.SERVICE_UNAVAILABLE), "POST", "pods", times=None)
    with pytest.raises(ApiError):
        await check(api, MEMORY)


async def test_daemon_sets_without_toleration_are_found(api):
    api.reviews[PODS] = admit
    api.store("/apis/apps/v1/namespaces/n/daemonsets", {"metadata": {"name": "d", "namespace": "n"}})
    [found] = (await check(api, MEMORY)).intolerant
    assert str(found) == "DaemonSet n/d (accelkit.io/memory)"
