"""Of pull secrets that pods of ours need, the log-ins are copied and nothing else."""

from __future__ import annotations

import base64

import msgspec
import pytest

from accelkit.cachecontroller.applier import Applier
from accelkit.cachecontroller.delivery import DeliveryPlan, SecretCopy
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.cachecontroller.seen_objects import SeenObjects
from accelkit.cachecontroller.shown import JOBS, ObjectName
from accelkit.errors import ApiError
from accelkit.gkm.objects import Cache, CacheMeta

COPY = SecretCopy(("team", "login"), ("accelkit", "job-1-pull"), ObjectName(JOBS, "job-1", "accelkit"), "u")
KEY = ".dockerconfigjson"


class Api:
    """One Secret, and what is made of it."""

    def __init__(self, data, type_):
        self.secret = {"type": type_, "data": data}
        self.reads, self.made = 0, []

    async def get(self, path):
        assert path.endswith("/team/secrets/login")
        self.reads += 1
        return msgspec.json.encode(self.secret)

    async def post(self, path, body):
        assert path.endswith("/accelkit/secrets")
        if self.made:
            raise ApiError("it is there", status=409, reason="AlreadyExists")
        self.made.append(body)
        return b"{}"


async def copy(data, type_="kubernetes.io/dockerconfigjson", times=1):
    """What is made of a Secret, and why nothing is."""
    api = Api({key: base64.b64encode(value).decode() for key, value in data.items()}, type_)
    seen = SeenObjects(lambda _key: None, clock=lambda: 1000.0)
    metrics = ControllerMetrics(
        leads=lambda: True, caches=list, waiting=lambda: 0, unreadable=lambda: 0, silent_seconds=lambda: 0.0
    )
    applier = Applier(api, seen, metrics, lambda: True)
    for _ in range(times):
        await applier.apply(Cache(CacheMeta(name="c", namespace="team")), None, DeliveryPlan(copies=(COPY,)))
    return api, seen.find_refusal(COPY.name)


@pytest.mark.parametrize(
    ("key", "type_", "copied"),
    [
        (KEY, "kubernetes.io/dockerconfigjson", "kubernetes.io/dockerconfigjson"),
        (".dockercfg", "kubernetes.io/dockercfg", "kubernetes.io/dockercfg"),
        (KEY, "kubernetes.io/tls", "Opaque"),
    ],
)
async def test_the_log_ins_alone_are_copied(key, type_, copied):
    api, refusal = await copy({key: b"{}", "other": bytes(900_000)}, type_)
    (made,) = api.made
    assert (made["type"], made["data"]) == (copied, {key: "e30="})
    assert made["metadata"]["name"] == "job-1-pull"
    assert refusal is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({KEY: bytes(65_540)}, "has more than 65536 bytes of .dockerconfigjson"),
        ({"other": b"x"}, "holds neither .dockerconfigjson nor .dockercfg"),
        ({}, "holds neither .dockerconfigjson nor .dockercfg"),
    ],
)
async def test_what_is_too_large_or_holds_none_is_refused_with_a_reason(data, text):
    api, refusal = await copy(data, times=3)
    assert api.made == []
    assert (refusal.reason, refusal.message) == (
        "PullSecretUnreadable",
        f"Secret team/login {text}, and is not copied",
    )
    # It is read again when the refusal is forgotten.
    assert api.reads == 1


async def test_a_secret_of_64_kib_is_copied():
    api, refusal = await copy({KEY: bytes(65_536)})
    assert len(api.made) == 1
    assert refusal is None
