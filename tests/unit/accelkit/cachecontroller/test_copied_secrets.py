"""Of pull secrets that pods of ours need, the log-ins are copied and nothing else."""

import base64

import pytest
from fake_api.server import FakeApi

from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import JOBS, ObjectName
from accelkit.cachecontroller.delivery import DeliveryPlan, SecretCopy
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.cachecontroller.plan_writer import PlanWriter
from accelkit.gkm.objects import Cache, CacheMeta

COPY = SecretCopy(("team", "login"), ("accelkit", "job-1-pull"), ObjectName(JOBS, "job-1", "accelkit"), "u")
KEY = ".dockerconfigjson"


async def copy(data, type_="kubernetes.io/dockerconfigjson", times=1):
    """What is made of a Secret, why nothing is, and how often it was read."""
    api = FakeApi()
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    api.store("/api/v1/namespaces/team/secrets", {"metadata": {"name": "login"}, "type": type_, "data": encoded})
    seen = ClusterState(lambda _key: None, clock=lambda: 1000.0)
    metrics = ControllerMetrics(
        leads=lambda: True, caches=list, waiting=lambda: 0, unreadable=lambda: 0, silent_seconds=lambda: 0.0
    )
    applier = PlanWriter(api, seen, metrics, lambda: True)
    for _ in range(times):
        await applier.apply(Cache(CacheMeta(name="c", namespace="team")), None, DeliveryPlan(copies=(COPY,)))
    made = [each for path, each in api.objects.items() if path.startswith("/api/v1/namespaces/accelkit/secrets/")]
    return made, seen.find_refusal(COPY.name), sum(each.method == "GET" for each in api.requests)


@pytest.mark.parametrize(
    ("key", "type_", "copied"),
    [
        (KEY, "kubernetes.io/dockerconfigjson", "kubernetes.io/dockerconfigjson"),
        (".dockercfg", "kubernetes.io/dockercfg", "kubernetes.io/dockercfg"),
        (KEY, "kubernetes.io/tls", "Opaque"),
    ],
)
async def test_only_registry_credentials_of_secret_are_copied(key, type_, copied):
    (made,), refusal, _ = await copy({key: b"{}", "other": bytes(900_000)}, type_)
    assert (made["type"], made["data"]) == (copied, {key: "e30="})
    assert made["metadata"]["name"] == "job-1-pull"
    assert refusal is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({KEY: bytes(65_540)}, "has more than 65536 bytes of .dockerconfigjson"),
        ({"other": b"x"}, "has neither .dockerconfigjson nor .dockercfg"),
        ({}, "has neither .dockerconfigjson nor .dockercfg"),
    ],
)
async def test_oversized_secret_or_secret_without_credentials_is_refused(data, text):
    made, refusal, reads = await copy(data, times=3)
    assert made == []
    assert refusal.reason == "PullSecretUnreadable"
    assert text in refusal.message
    # It is read again when the refusal is forgotten.
    assert reads == 1


async def test_secret_of_64_kib_is_copied_once():
    made, refusal, _ = await copy({KEY: bytes(65_536)}, times=2)
    assert len(made) == 1
    assert refusal is None
