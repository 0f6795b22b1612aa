"""Judgements of images in a registry: what is asked for, what is not, and what a refusal says."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from ports import free_port
from private_sigstore import PrivateSigstore
from registries.caches import cache_folder, publish, sign
from registries.hostile import HostileRegistry

from accelkit.cachecontroller.deciding.judgement import Question, Refused
from accelkit.cachecontroller.judging.coverage import Coverage
from accelkit.cachecontroller.judging.judge import ImageEvaluator
from accelkit.errors import ApiError
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec, SecretName
from accelkit.kernelcache.registry import RegistrySettings

REPOSITORY = "team/cache"
BLOBS = f"/v2/{REPOSITORY}/blobs/.*"


class NoSecrets:
    async def get(self, _path: str) -> bytes:
        raise ApiError("no", status=404, reason="NotFound")


class World:
    def __init__(self, registry: HostileRegistry, folder):
        self.registry, self._folder = registry, folder
        self.signer = PrivateSigstore.new().key()
        self.policies = {"ci": self.policy()}
        self.coverage = Coverage(lambda: self.policies)

    def policy(self, images: str = "**", **more) -> dict:
        key = {"data": self.signer.key.public_pem.decode()}
        return {
            "images": [f"{self.registry.host}/{images}"],
            "signers": [{"name": "ci", "key": key, "transparencyLog": "notRequired"}],
            **more,
        }

    def cache(self, **spec) -> Cache:
        image = f"{self.registry.host}/{REPOSITORY}:v1"
        return Cache(CacheMeta(name="c", namespace="team"), CacheSpec(**{"image": image, **spec}))

    async def publish(self, *, signed: bool = True):
        folder = cache_folder(self._folder / "cache")
        image = await asyncio.to_thread(publish, self.registry.host, folder)
        if signed:
            await asyncio.to_thread(sign, self.registry.host, image, self.signer)
        self.registry.requests.clear()
        return image

    async def judge(self, cache: Cache | None = None, attempts: int = 0, **more):
        cache = cache or self.cache()
        question = self.coverage.find_question(cache)
        assert isinstance(question, Question), question
        settings = RegistrySettings(plain_http=frozenset({self.registry.host}), **more)
        async with ImageEvaluator(NoSecrets(), settings, self.coverage, "accelkit") as judge:
            return await judge.judge(cache, question, attempts)


@pytest.fixture
def world(hostile_registry: HostileRegistry, tmp_path):
    return World(hostile_registry, tmp_path)


async def test_signed_image_is_verified_without_pulling_its_layer(world):
    image = await world.publish()
    judgement = await world.judge(attempts=3)
    assert judgement.refused is None
    assert (judgement.digest, judgement.attempts) == (image.digest, 0)
    assert judgement.question == world.coverage.find_question(world.cache())
    assert judgement.signatures[0]["policy"] == "ci"
    assert judgement.labels.format == "triton"
    # The configuration, and the bundle's own.
    assert len(world.registry.received("GET", BLOBS)) == 2


async def test_unsigned_image_is_refused_without_pulling_blobs(world):
    image = await world.publish(signed=False)
    judgement = await world.judge()
    assert (judgement.refused.reason, judgement.refused.retryable) == ("NoSignatures", False)
    assert judgement.digest == image.digest
    # Somebody may be about to sign it.
    assert judgement.attempts == 1
    assert not world.registry.received("GET", BLOBS)


async def test_missing_image_is_refused_without_digest(world):
    judgement = await world.judge()
    assert (judgement.refused.reason, judgement.digest, judgement.attempts) == ("Unreadable", "", 1)


async def test_unavailable_registry_is_reported_as_retryable(world):
    world.registry.on("GET", "/v2/.*", lambda _request: web.Response(status=503))
    judgement = await world.judge(attempts=4)
    assert (judgement.refused.reason, judgement.refused.retryable) == ("RegistryUnavailable", True)
    assert judgement.attempts == 5


async def test_mismatched_digest_from_registry_is_refused(world):
    await world.publish()
    headers = {"Docker-Content-Digest": "sha256:" + "0" * 64, "Content-Type": "application/json"}
    world.registry.on(
        "GET", f"/v2/{REPOSITORY}/manifests/v1", lambda _request: web.Response(body=b"{}", headers=headers)
    )
    judgement = await world.judge()
    assert (judgement.refused.reason, judgement.refused.retryable) == ("Unreadable", False)


async def test_missing_pull_secret_is_reported_as_retryable(world):
    await world.publish()
    judgement = await world.judge(world.cache(image_pull_secrets=(SecretName("login"),)))
    assert (judgement.refused.reason, judgement.refused.retryable) == ("PullSecretUnreadable", True)
    assert "team/login" in judgement.refused.message
    assert not world.registry.requests


def test_image_without_covering_policy_is_refused(world):
    world.policies = {"ci": world.policy("other/**")}
    question = world.coverage.find_question(world.cache())
    assert isinstance(question, Refused)
    assert (question.reason, question.retryable) == ("NotCovered", False)
    world.policies = {"ci": world.policy(namespaces=["another"])}
    assert world.coverage.find_question(world.cache()).reason == "NotCovered"


def test_only_covering_policies_affect_question_about_image(world):
    before = world.coverage.find_question(world.cache())
    world.policies = {**world.policies, "others": world.policy("other/**")}
    assert world.coverage.find_question(world.cache()) == before
    world.policies = {**world.policies, "more": world.policy("team/**")}
    assert world.coverage.find_question(world.cache()) != before
    world.policies = {**world.policies, "broken": {"images": [f"{world.registry.host}/team/**"], "signers": []}}
    question = world.coverage.find_question(world.cache())
    assert (question.reason, question.retryable) == ("PolicyUnreadable", True)
    assert isinstance(world.coverage.find_question(world.cache(image=f"{world.registry.host}/other/app:v1")), Question)
    assert world.coverage.find_question(world.cache(image="Not An Image")).reason == "InvalidImage"
    assert world.coverage.find_question(world.cache(mount_path="relative")).reason == "InvalidSpec"


async def test_mirror_is_queried_for_unreachable_registry(world):
    """That the image is unsigned is what can be mended; that the registry is away is how it is there."""
    away = f"127.0.0.1:{free_port()}"
    image = await world.publish(signed=False)
    world.policies = {"ci": {**world.policy(), "images": [f"{away}/**"]}}
    cache = world.cache(image=f"{away}/{REPOSITORY}:v1")
    judgement = await world.judge(cache, mirrors={away: (world.registry.host,)})
    assert judgement.digest == image.digest
    assert (judgement.refused.reason, judgement.refused.retryable) == ("NoSignatures", True)
    assert away in judgement.refused.message
    await asyncio.to_thread(sign, world.registry.host, image, world.signer)
    assert (await world.judge(cache, mirrors={away: (world.registry.host,)})).refused is None
