"""The webhook's configuration is ahead of the caches, whichever replica writes it and however many come at once."""

from __future__ import annotations

import asyncio
import json
import re
import time

import pytest

from accelkit.cachecontroller import gate as module
from accelkit.cachecontroller.gate import Gate
from accelkit.cachecontroller.webhook.announcements import ANNOUNCED_ANNOTATION
from accelkit.cachecontroller.webhook.registration import Endpoint, Registration
from accelkit.errors import ApiError
from accelkit.gkm.objects import Cache, CacheMeta
from accelkit.install.certificates.issuing import Authority


class Api:
    """One configuration, as the API server keeps it; a writer that read something older is refused."""

    def __init__(self):
        self.stored = None
        self.writes = 0
        self.failures = []
        # Called between a read and the write that follows.
        self.between = None

    async def get(self, _path):
        await asyncio.sleep(0)
        if self.stored is None:
            raise ApiError("none", status=404)
        return json.dumps(self.stored).encode()

    async def post(self, _path, body, *, query):
        assert query
        await self._before()
        if self.stored is not None:
            raise ApiError("it is there", status=409, reason="AlreadyExists")
        self._store(body)

    async def patch(self, _path, body, *, kind, query):
        assert (kind, query["force"]) == ("apply", "true")
        await self._before()
        if self.stored is None or body["metadata"]["resourceVersion"] != self.stored["metadata"]["resourceVersion"]:
            raise ApiError("it has changed", status=409, reason="Conflict")
        self._store(body)

    async def _before(self):
        if self.between is not None:
            between, self.between = self.between, None
            await between()
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)

    def _store(self, body):
        self.writes += 1
        body["metadata"]["resourceVersion"] = str(self.writes)
        self.stored = body

    def claims(self):
        """The claims whose pods are sent."""
        (condition,) = self.stored["webhooks"][0]["matchConditions"]
        return set(re.findall(r"'([a-z0-9-]+/[a-z0-9-]+)'", condition["expression"]))

    def announced(self):
        """The claims that are announced."""
        return set(json.loads(self.stored["metadata"]["annotations"][ANNOUNCED_ANNOTATION]))


def cache(name):
    return Cache(metadata=CacheMeta(name=name, namespace="team"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    path = tmp_path_factory.mktemp("certificate") / "tls.crt"
    path.write_bytes(Authority("webhook").certificate)
    return path


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def make_replica(api, certificate, monkeypatch):
    """A replica that knows some caches."""
    monkeypatch.setattr(module, "_SPREAD_SECONDS", 0)
    monkeypatch.setattr(module, "_SPREAD_WRITES", 0)
    monkeypatch.setattr(module, "_WRITE_SECONDS", 0)

    def make(*names):
        known = [cache(each) for each in names]
        endpoint = Endpoint(certificate, url="https://127.0.0.1:1")
        return Gate(Registration(api, "hook", endpoint, ["accelkit"]), lambda: known, lambda: True), known

    return make


async def test_a_cache_is_announced_beside_those_that_are_there(api, make_replica):
    gate, _ = make_replica("a")
    await gate.announce(cache("b"))
    assert (api.claims(), api.announced()) == ({"team/a", "team/b"}, {"team/b"})


async def test_a_replica_that_has_not_seen_a_cache_yet_leaves_its_claims_in(api, make_replica):
    ahead, known = make_replica()
    behind, _ = make_replica()
    await ahead.announce(cache("new"))
    known.append(cache("new"))
    await ahead.open(known[0])
    await behind.announce(cache("other"))
    assert api.claims() == {"team/new", "team/other"}


async def test_replicas_that_write_at_once_lose_nothing(api, make_replica):
    (one, _), (two, _) = make_replica(), make_replica()
    api.between = lambda: two.announce(cache("from-two"))
    await one.announce(cache("from-one"))
    assert api.claims() == {"team/from-one", "team/from-two"}


async def test_200_at_once_are_a_few_writes(api, make_replica):
    gates = [make_replica()[0] for _ in range(2)]
    async with asyncio.timeout(20):
        await asyncio.gather(*(gates[number % 2].announce(cache(f"cache-{number}")) for number in range(200)))
    assert len(api.claims()) == 200
    assert api.writes <= 6


async def test_announcements_without_end_are_a_write_now_and_then(api, make_replica, monkeypatch):
    monkeypatch.setattr(module, "_WRITE_SECONDS", 0.2)
    monkeypatch.setattr(module, "_WRITES_AHEAD", 2)
    gate, _ = make_replica()
    began = time.monotonic()

    async def create(number):
        for turn in range(10):
            await gate.announce(cache(f"cache-{number}-{turn}"))

    async with asyncio.timeout(60):
        await asyncio.gather(*(create(number) for number in range(20)))
    assert len(api.claims()) == 200
    assert api.writes <= 3 + (time.monotonic() - began) / 0.2


async def test_the_first_announcements_after_a_while_do_not_wait(api, make_replica, monkeypatch):
    monkeypatch.setattr(module, "_WRITE_SECONDS", 60)
    gate, _ = make_replica()
    async with asyncio.timeout(20):
        for number in range(module._WRITES_AHEAD + 1):
            await gate.announce(cache(f"cache-{number}"))
    assert len(api.claims()) == api.writes == module._WRITES_AHEAD + 1
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await gate.announce(cache("one-more"))


async def test_what_is_announced_already_is_not_written_again(api, make_replica):
    gate, _ = make_replica()
    for _ in range(5):
        await gate.announce(cache("a"))
    assert api.writes == 1


async def test_what_could_not_be_announced_for_one_is_announced_for_the_others(api, make_replica):
    gate, _ = make_replica()
    api.failures = [ApiError("away", status=500)]
    done = await asyncio.gather(*(gate.announce(cache(each)) for each in "abc"), return_exceptions=True)
    assert [type(each) for each in done] == [ApiError, type(None), type(None)]
    assert {"team/b", "team/c"} <= api.claims()


async def test_who_hangs_up_takes_nobody_along(api, make_replica):
    gate, _ = make_replica()
    first = asyncio.create_task(gate.announce(cache("a")))
    second = asyncio.create_task(gate.announce(cache("b")))

    async def hang_up():
        first.cancel()
        await asyncio.sleep(0)

    api.between = hang_up
    await second
    assert "team/b" in api.claims()
    assert first.cancelled()


async def test_conflicts_without_end_are_told(api, make_replica):
    gate, _ = make_replica()
    api.failures = [ApiError("changed", status=409) for _ in range(5)]
    with pytest.raises(ApiError, match="changed"):
        await gate.announce(cache("a"))


async def test_a_cache_that_is_covered_is_let_in_without_asking(api, make_replica):
    gate, known = make_replica("a", "b")
    await gate.open(known[0])
    await gate.open(known[1])
    assert api.writes == 1
    known.append(cache("c"))
    await gate.open(known[2])
    assert api.claims() == {"team/a", "team/b", "team/c"}


async def test_what_was_announced_is_known_to_every_replica(api, certificate, make_replica):
    other = Registration(api, "hook", Endpoint(certificate, url="https://127.0.0.1:1"), [])
    assert await other.read_announced() == frozenset()
    gate, _ = make_replica("a")
    await gate.announce(cache("b"))
    assert await other.read_announced() == {("team", "b")}
    api.stored["metadata"]["annotations"][ANNOUNCED_ANNOTATION] = "edited"
    assert await other.read_announced() == frozenset()


async def test_an_edited_annotation_is_written_anew(api, make_replica):
    gate, known = make_replica("a")
    await gate.open(known[0])
    api.stored["metadata"]["annotations"][ANNOUNCED_ANNOTATION] = '{"team/x\'] || true": 1}'
    await gate.announce(cache("b"))
    assert (api.claims(), api.announced()) == ({"team/a", "team/b"}, {"team/b"})


async def test_it_is_looked_at_now_and_then_by_who_leads(api, make_replica, monkeypatch, caplog):
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.001)
    gate, _ = make_replica("a")
    api.failures = [ApiError("away")]
    running = asyncio.create_task(gate.run())
    async with asyncio.timeout(20):
        while api.writes == 0:
            await asyncio.sleep(0.001)
    running.cancel()
    assert "cannot be kept: away" in caplog.text
    assert api.claims() == {"team/a"}
    api.stored = None
    follower = Gate(gate._registration, list, lambda: False)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await follower.run()
    assert api.stored is None


async def test_a_new_configuration_is_there_before_the_first_cache(api, certificate, monkeypatch):
    monkeypatch.setattr(module, "_BEGIN_SECONDS", 0.001)
    leads = asyncio.Event()
    registration = Registration(api, "hook", Endpoint(certificate, url="https://127.0.0.1:1"), ["accelkit"])
    running = asyncio.create_task(Gate(registration, list, leads.is_set).run())
    try:
        await asyncio.sleep(0.01)
        assert api.writes == 0
        leads.set()
        async with asyncio.timeout(10):
            while not api.writes:
                await asyncio.sleep(0.001)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert any("announce" in each["clientConfig"]["url"] for each in api.stored["webhooks"])
