"""A verification is believed for some time, and other policies are asked with the signatures that were kept."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hand_made_archives import GZIP
from private_sigstore import PrivateSigstore
from registries import misbehaviour
from registries.hostile import HostileRegistry
from served_images import HELLO, client_of, extract, image_of, policies_of, put, sign_v2, sign_v3, unsigned

from accelkit.errors import CacheError
from accelkit.kernelcache.compatibility.arguments import resolve_cards
from accelkit.kernelcache.extraction import ExtractionRequest, extract_image, judge_again, read_completed
from accelkit.kernelcache.extraction.kept_signatures import MAX_KEPT_BYTES, SIGNATURES
from accelkit.kernelcache.extraction.preview import preview_extraction
from accelkit.kernelcache.signatures import RejectionReason, SignerPolicies, UnverifiedError

CI = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main"
RELEASE = "https://github.com/acme/release/.github/workflows/build.yml@refs/heads/main"
START = datetime(2026, 3, 1, 12, 0, 0, 999_999, tzinfo=UTC)
IMAGE = image_of([(gzip.compress(HELLO), GZIP)])
DAY = 24 * 3600


class Stand:
    """A cache that was extracted at the start, and requests for it at other moments."""

    def __init__(self, registry: HostileRegistry, folder: Path, sigstore: PrivateSigstore) -> None:
        self.registry = registry
        self.folder = folder
        self.sigstore = sigstore
        self.image = put(registry, IMAGE)
        self.policies = self.policy(CI)

    def policy(self, subject: str, name: str = "acme", ttl: int | None = None) -> SignerPolicies:
        read = policies_of(self.sigstore, self.folder / "policies", subject=subject, name=name)
        if ttl is None:
            return read
        return replace(read, policies=tuple(replace(each, verdict_ttl_seconds=ttl) for each in read.policies))

    def request(self, seconds: float = 0, **changes) -> ExtractionRequest:
        given = {"policies": self.policies, "clock": lambda: START + timedelta(seconds=seconds)} | changes
        return ExtractionRequest(image=self.image, base=self.folder / "caches", **given)

    async def asks(self, request: ExtractionRequest) -> bool:
        """Whether an extraction asks the registry."""
        self.registry.requests.clear()
        assert not (await extract(self.registry, request)).fresh
        return bool(self.registry.requests)


@pytest.fixture
async def stand(hostile_registry: HostileRegistry, tmp_path: Path, sigstore: PrivateSigstore) -> Stand:
    stand = Stand(hostile_registry, tmp_path, sigstore)
    sign_v2(hostile_registry, sigstore.identity(CI), stand.image.digest)
    sign_v3(hostile_registry, sigstore.identity(RELEASE), IMAGE)
    await extract(hostile_registry, stand.request())
    return stand


@pytest.mark.parametrize(("seconds", "asks"), [(0, False), (DAY - 2, False), (DAY, True), (-10, True)])
async def test_verification_is_valid_for_one_day(stand: Stand, seconds: float, *, asks: bool) -> None:
    assert await stand.asks(stand.request(seconds)) is asks


@pytest.mark.parametrize(
    ("policy", "option", "believed"), [(60, None, 60), (60, 30, 30), (60, 3600, 60), (7 * DAY, None, 7 * DAY)]
)
async def test_verification_ttl_is_minimum_of_policy_and_option(
    stand: Stand, policy: int, option: float | None, believed: int
) -> None:
    policies = replace(
        stand.policies, policies=tuple(replace(each, verdict_ttl_seconds=policy) for each in stand.policies.policies)
    )
    given = {"policies": policies, "verdict_ttl_seconds": option}
    assert not await stand.asks(stand.request(believed - 2, **given))
    assert await stand.asks(stand.request(believed + 1, **given))


@pytest.mark.parametrize("given", [{"verdict_ttl_seconds": 0}, {"ttl": 0}])
async def test_zero_ttl_queries_registry_on_every_extraction(stand: Stand, given: dict) -> None:
    if "ttl" in given:
        given = {"policies": stand.policy(CI, ttl=0)}
    assert await stand.asks(stand.request(0, **given))


async def test_registry_query_restarts_verification_ttl(stand: Stand) -> None:
    assert await stand.asks(stand.request(DAY + 1))
    assert not await stand.asks(stand.request(2 * DAY - 2))


async def test_deleted_signature_is_accepted_until_verification_ttl_expires(stand: Stand) -> None:
    stand.registry.on("GET", r".*/(referrers/.*|manifests/sha256-.*)", misbehaviour.failing(404))
    assert not await stand.asks(stand.request(DAY - 2))
    with pytest.raises(UnverifiedError) as caught:
        await extract(stand.registry, stand.request(DAY))
    assert caught.value.reason is RejectionReason.NO_SIGNATURES


async def test_record_without_valid_verification_time_is_verified_again(stand: Stand) -> None:
    (record,) = (stand.folder / "caches").glob("*/complete.json")
    document = json.loads(record.read_bytes())
    for said in ("", "yesterday", "2026-03-01T12:00:00"):
        record.write_text(json.dumps({**document, "verified_at": said}))
        assert await stand.asks(stand.request(1))


async def test_unsigned_request_for_verified_cache_does_not_query_registry(stand: Stand) -> None:
    assert not await stand.asks(unsigned(stand.image, stand.folder / "caches"))


async def test_kept_signatures_are_verified_by_new_policies_without_registry(stand: Stand) -> None:
    policies = stand.policy(RELEASE, "release")
    stand.registry.requests.clear()
    judged = await judge_again(stand.request(60, policies=policies))
    assert judged is not None
    assert stand.registry.requests == []
    assert RELEASE in judged.record.signatures[0]
    assert judged.record.policy_digest.startswith(policies.digest)
    assert read_completed(judged.place) == judged.record
    # It does not begin the time anew: nobody looked at the registry.
    assert judged.record.verified_at == START.isoformat(timespec="seconds")
    assert not await stand.asks(stand.request(60, policies=policies))


async def test_preview_and_extraction_with_new_policies_do_not_query_registry(stand: Stand) -> None:
    policies = stand.policy(RELEASE, "release")
    async with client_of(stand.registry) as client:
        stand.registry.requests.clear()
        preview = await preview_extraction(client, stand.request(60, policies=policies))
        assert RELEASE in preview.signatures[0]
        await extract_image(client, stand.request(60, policies=policies))
    assert stand.registry.requests == []


async def test_extraction_queries_registry_if_kept_signatures_fail_policy(stand: Stand) -> None:
    somebody = "https://github.com/acme/new/.github/workflows/build.yml@refs/heads/main"
    request = stand.request(60, policies=stand.policy(somebody, "new"))
    before = await judge_again(stand.request(60))
    assert before is not None
    with pytest.raises(UnverifiedError) as caught:
        await judge_again(request)
    assert caught.value.reason is RejectionReason.IDENTITY_MISMATCH
    assert read_completed(before.place) == before.record
    sign_v3(stand.registry, stand.sigstore.identity(somebody), IMAGE)
    assert await stand.asks(request)
    # What was found then is kept from then on.
    again = await judge_again(stand.request(90, policies=stand.policy(somebody, "newer")))
    assert again is not None
    assert somebody in again.record.signatures[0]


async def test_image_without_matching_policy_is_rejected_without_registry(stand: Stand) -> None:
    policies = policies_of(stand.sigstore, stand.folder / "policies", subject=CI, images=("quay.io/other/*",))
    with pytest.raises(UnverifiedError) as caught:
        await judge_again(stand.request(60, policies=policies))
    assert caught.value.reason is RejectionReason.NOT_COVERED


async def test_reverification_returns_none_without_current_record_and_signatures(stand: Stand) -> None:
    policies = stand.policy(RELEASE, "release")
    assert await judge_again(stand.request(DAY, policies=policies)) is None
    assert await judge_again(stand.request(1, mount_path="/elsewhere", policies=policies)) is None
    (kept,) = (stand.folder / "caches").glob(f"*/{SIGNATURES}")
    for damage in (b"[", b"[1]", b" " * (MAX_KEPT_BYTES + 1)):
        kept.write_bytes(damage)
        assert await judge_again(stand.request(1, policies=policies)) is None
    kept.unlink()
    assert await judge_again(stand.request(1, policies=policies)) is None
    # Without a change of policies the record is enough.
    assert await judge_again(stand.request(1)) is not None


async def test_kept_signatures_of_another_image_are_rejected(stand: Stand, tmp_path: Path) -> None:
    other = image_of([(gzip.compress(HELLO, 1), GZIP)])
    assert other.digest != IMAGE.digest
    where = put(stand.registry, other, "other")
    done = await extract(stand.registry, unsigned(where, stand.folder / "caches"))
    (kept,) = (stand.folder / "caches").glob(f"{stand.image.digest.replace(':', '-')}*/{SIGNATURES}")
    (done.place.folder / SIGNATURES).write_bytes(kept.read_bytes())
    request = replace(stand.request(60), image=where)
    record = done.place.folder / "complete.json"
    document = json.loads(record.read_bytes())
    record.write_text(json.dumps({**document, "verified_at": START.isoformat()}))
    with pytest.raises(UnverifiedError) as caught:
        await judge_again(request)
    assert caught.value.reason is RejectionReason.SUBJECT_MISMATCH


async def test_reverification_checks_card_compatibility(stand: Stand) -> None:
    node = await resolve_cards(("cuda:90",), None, None)
    with pytest.raises(CacheError, match="fits none of the cards"):
        await judge_again(stand.request(60, node=node))
