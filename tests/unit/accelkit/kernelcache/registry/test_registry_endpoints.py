"""A registry behind a gap costs one attempt where its mirrors answer, and all patience where they do not."""

from __future__ import annotations

import asyncio
import socket

import pytest
from registries.hostile import HostileRegistry
from registries.memory import refusal
from registries.visiting import REPOSITORY, at, image, visiting

from accelkit.errors import RegistryError
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings
from accelkit.kernelcache.registry.endpoints import Endpoints

SIGNATURES = "sha256-0.sig"
IMAGE = Reference("origin.example", REPOSITORY, "v1")
GONE = RegistryError("it is not there", status=404)
AWAY = RegistryError("no connection", retryable=True, unreached=True)
TROUBLE = RegistryError("later", status=503, retryable=True)


class Asked:
    """What is asked, by registry, and the answers that are given."""

    def __init__(self, **answers: str | RegistryError) -> None:
        self.answers = answers
        self.attempts: list[tuple[str, int]] = []
        self.now = 100.0
        mirrors = {"origin.example": tuple(f"{name}.example" for name in answers if name != "origin")}
        self.endpoints = Endpoints(RegistrySettings(mirrors=mirrors, attempts=5), lambda: self.now)

    async def __call__(self, endpoint):
        name = endpoint.registry.removesuffix(".example")
        self.attempts.append((name, endpoint.connects))
        answer = self.answers[name]
        if isinstance(answer, RegistryError):
            raise answer
        return answer

    async def all(self):
        self.attempts.clear()
        outcomes = await self.endpoints.request_all(IMAGE, self)
        self.beside_mirrors = getattr(outcomes[-1], "beside_mirrors", False)
        # One that mirrors have answered for is a copy.
        return [AWAY if isinstance(each, RegistryError) and each.unreached else each for each in outcomes]


@pytest.mark.parametrize("answer", ["found", GONE])
async def test_unreachable_registry_is_tried_once_if_mirror_responds(answer):
    asked = Asked(mirror=answer, origin=AWAY)
    assert await asked.all() == [answer, AWAY]
    assert sorted(asked.attempts) == [("mirror", 1), ("origin", 1)]
    assert asked.beside_mirrors
    assert not AWAY.beside_mirrors


async def test_unreachable_registry_is_not_covered_if_one_mirror_fails():
    asked = Asked(mirror=GONE, other=TROUBLE, origin=AWAY)
    await asked.all()
    assert not asked.beside_mirrors


async def test_unreachable_registry_is_skipped_for_30_seconds():
    asked = Asked(mirror=GONE, origin=AWAY)
    await asked.all()
    asked.now += 29
    assert await asked.all() == [GONE, AWAY]
    assert asked.attempts == [("mirror", 1)]
    asked.now += 2
    asked.answers["origin"] = "signed"
    assert await asked.all() == [GONE, "signed"]
    asked.answers["origin"] = "signed again"
    assert await asked.all() == [GONE, "signed again"]


@pytest.mark.parametrize("trouble", [AWAY, TROUBLE])
async def test_registry_gets_all_attempts_if_no_mirror_responds(trouble):
    asked = Asked(mirror=trouble, origin=AWAY)
    for _ in range(2):
        assert await asked.all() == [trouble, AWAY]
        assert asked.attempts[-1] == ("origin", 5)


async def test_registry_with_server_error_is_not_skipped():
    asked = Asked(mirror=GONE, origin=TROUBLE)
    assert await asked.all() == [GONE, TROUBLE]
    # Patience with what was answered is the exchange's, and not cut short.
    assert asked.attempts == [("mirror", 1), ("origin", 1)]
    asked.answers["origin"] = "signed"
    assert await asked.all() == [GONE, "signed"]


async def test_registry_without_mirrors_gets_all_attempts():
    asked = Asked(origin=AWAY)
    for _ in range(2):
        assert await asked.all() == [AWAY]
        assert asked.attempts == [("origin", 5)]


async def test_registry_is_no_longer_skipped_after_successful_request():
    asked = Asked(mirror=GONE, origin=AWAY)
    await asked.all()
    asked.answers["origin"] = "here"
    assert await asked.endpoints.request_in_turn(IMAGE, asked) == "here"
    assert await asked.all() == [GONE, "here"]


# On sockets


@pytest.fixture
def mirror():
    with HostileRegistry() as mirror:
        yield mirror


@pytest.fixture
def closed():
    """A port of this machine that is taken, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


async def test_signature_lookup_does_not_wait_for_unreachable_registry(mirror, closed):
    digest = image(mirror, "v1")
    naps: list[float] = []
    async with visiting(mirror, plain_names=(closed,), mirrors={closed: (mirror.host,)}, naps=naps) as client:
        found = Reference(closed, REPOSITORY, "v1")
        assert (await client.read_manifest(found)).digest == digest
        referrers = await client.list_referrers(found.with_digest(digest))
        signatures, problems = await client.read_manifests(found.with_tag(SIGNATURES))
    assert naps == []
    assert (referrers.descriptors, signatures) == ((), [])
    # What the registry has is not known, which is not the same as nothing.
    assert [each.unreached for each in (*referrers.problems, *problems)] == [True, True, True]


async def test_unreachable_registry_is_retried_if_mirror_lacks_image(mirror, closed):
    naps: list[float] = []
    async with visiting(mirror, plain_names=(closed,), mirrors={closed: (mirror.host,)}, naps=naps) as client:
        with pytest.raises(RegistryError, match="cannot reach") as refused:
            await client.read_manifest(Reference(closed, REPOSITORY, "v1"))
    assert refused.value.unreached
    assert len(naps) == 4


async def test_referrers_api_and_fallback_tag_are_requested_concurrently(mirror):
    digest = image(mirror)
    # Either answers only when the other one has been asked.
    both = asyncio.Barrier(2)

    async def meet(_):
        await both.wait()
        return refusal(404, "NAME_UNKNOWN", {})

    mirror.on("GET", f"/v2/{REPOSITORY}/(referrers|manifests)/sha256.*", meet)
    async with asyncio.timeout(30), visiting(mirror, attempts=1) as client:
        await client.list_referrers(at(mirror, digest))


async def test_host_that_drops_packets_fails_at_connect_timeout():
    # The queue of its connections is full, so that the next one is not answered.
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for each in (first, second):
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        host = f"127.0.0.1:{full.getsockname()[1]}"
        settings = RegistrySettings(plain_http=frozenset({host}), attempts=1, timeout_seconds=60, connect_seconds=0.2)
        async with asyncio.timeout(30), RegistryClient(settings) as client:
            with pytest.raises(RegistryError, match="cannot reach") as refused:
                await client.read_manifest(Reference(host, REPOSITORY, "v1"))
    assert refused.value.unreached
