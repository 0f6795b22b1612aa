"""Which digest pods get: verdicts, failures that are none, tags that move, policies that change."""

from __future__ import annotations

import msgspec
import pytest

from accelkit.cachecontroller.deciding.judgement import (
    Judgement,
    Question,
    Refused,
    decide,
    read_image,
)
from accelkit.gkm.objects import Cache, CacheMeta, CacheMount, CacheSpec, CacheStatus, CacheVerification, SecretName
from accelkit.kernelcache.formats.label_reading import ImageLabels
from accelkit.kernelcache.formats.mounts import Mount, MountPlan

IMAGE, DIGEST, OTHER = "q.io/a/b:v1", "sha256:" + "a" * 64, "sha256:" + "b" * 64
ASKED = Question(IMAGE, "sha256:policies")
PLAN = MountPlan("VLLM_CACHE_ROOT", "/root/x", (Mount("", "/root/x"),))
VLLM = ImageLabels(format="vllm", size_bytes=7, mounts=PLAN)
NOW, AGAIN = 10_000.0, 600.0
GONE = Refused("RegistryUnavailable", "it is away", retryable=True)
UNSIGNED = Refused("NoSignatures", "it has none")


def cache(status: CacheStatus | None = None, **spec) -> Cache:
    meta = CacheMeta(name="c", namespace="team", generation=1)
    return Cache(meta, CacheSpec(image=IMAGE, **spec), status or CacheStatus())


def verified(digest: str = DIGEST, **more) -> CacheStatus:
    verification = CacheVerification(digest, ASKED.policy_digest, [{"policy": "p"}], "1970-01-01T02:46:30Z")
    return CacheStatus(
        **{
            "resolved_digest": digest,
            "resolved_image": IMAGE,
            "mount_path": "/cache",
            "observed_generation": 1,
            **more,
        },
        verification=verification,
    )


def ask(of: Cache, judgement: Judgement | None = None, asked: Question | Refused = ASKED):
    return decide(of, asked, judgement, now=NOW, again_seconds=AGAIN)


def holds(decision, type_: str) -> tuple[str, str]:
    return next((each.status, each.reason) for each in decision.conditions if each.type == type_)


def test_cache_is_verified_immediately_and_served_until_verdict_expires():
    decision = ask(cache())
    assert decision.judge_at == NOW
    assert (decision.serves, decision.withdrawn) == (False, False)
    assert holds(decision, "Verified") == ("Unknown", "Pending")
    decision = ask(cache(), Judgement(ASKED, NOW - 1, DIGEST, None, ({"policy": "p", "signer": "s"},), VLLM))
    assert decision.serves
    assert decision.judge_at == NOW - 1 + AGAIN
    status = decision.status
    assert (status.resolved_digest, status.mount_path, status.cache_bytes) == (DIGEST, "/root/x", 7)
    assert status.verification.verified_at == "1970-01-01T02:46:39Z"
    former = Judgement(Question(IMAGE, "sha256:other"), NOW, OTHER)
    assert not ask(cache(), former).serves


def test_the_status_has_path_mounts_and_variables_of_the_cache():
    decision = ask(cache(mount_path="/here"), Judgement(ASKED, NOW, DIGEST, labels=VLLM))
    assert decision.status.mount_path == "/here"
    assert ask(cache(), Judgement(ASKED, NOW, DIGEST)).status.mount_path == "/cache"
    status = ask(cache(mount_path="/cache"), Judgement(ASKED, NOW, DIGEST, labels=VLLM)).status
    assert (status.cache_format, status.capture_path, status.cache_bytes) == ("vllm", "/root/x", 7)
    assert status.mounts == [CacheMount("/cache")]
    assert status.variables["VLLM_CACHE_ROOT"] == "/cache"
    labels = msgspec.structs.replace(VLLM, variables={"VLLM_USE_V1": True, "VLLM_PP_LAYER_PARTITION": None})
    status = ask(cache(), Judgement(ASKED, NOW, DIGEST, labels=labels)).status
    assert status.recorded_environment == {"VLLM_USE_V1": "1", "VLLM_PP_LAYER_PARTITION": ""}


def test_restarted_controller_uses_verdict_of_status_until_expiry():
    decision = ask(cache(verified()))
    assert decision.serves
    assert decision.judge_at == NOW - 10 + AGAIN
    # Of another spec, the path may be another.
    assert ask(cache(verified(observed_generation=0))).judge_at == NOW
    status = verified()
    status.verification.verified_at = "2999-01-01T00:00:00Z"
    assert ask(cache(status)).judge_at == NOW + AGAIN


@pytest.mark.parametrize("wrong", [{"policy_digest": "sha256:other"}, {"image": "q.io/a/b:v2"}])
def test_changed_policy_or_image_starts_no_delivery_before_verification(wrong):
    of = cache(verified())
    asked = Question(**{"image": IMAGE, "policy_digest": ASKED.policy_digest, **wrong})
    decision = ask(of, asked=asked)
    assert (decision.serves, decision.withdrawn, decision.judge_at) == (False, False, NOW)
    assert decision.status.resolved_digest == DIGEST
    assert holds(decision, "Verified") == ("Unknown", "Pending")
    # Nothing learnt under them is no verdict either.
    decision = ask(of, Judgement(asked, NOW, "", GONE, attempts=1), asked)
    assert (decision.serves, decision.withdrawn) == (False, False)
    decision = ask(of, Judgement(asked, NOW, DIGEST, UNSIGNED), asked)
    assert decision.withdrawn
    assert decision.status.resolved_digest == ""
    assert decision.status.previous_digests == [DIGEST]


def test_registry_outage_keeps_verdict_and_is_retried():
    decision = ask(cache(verified()), Judgement(ASKED, NOW, "", GONE, attempts=1))
    assert decision.serves
    assert holds(decision, "Verified") == ("True", "Verified")
    assert holds(decision, "Resolved") == ("True", "RegistryUnavailable")
    assert NOW + 4 <= decision.judge_at <= NOW + 5
    many = ask(cache(verified()), Judgement(ASKED, NOW, "", GONE, attempts=40))
    assert NOW + 200 < many.judge_at <= NOW + 300


def test_digest_is_withdrawn_only_by_refusal_of_same_digest():
    decision = ask(cache(verified()), Judgement(ASKED, NOW, OTHER, UNSIGNED))
    assert decision.serves
    assert decision.status.resolved_digest == DIGEST
    assert holds(decision, "Resolved") == ("False", "NoSignatures")
    decision = ask(cache(verified()), Judgement(ASKED, NOW, DIGEST, UNSIGNED))
    assert decision.withdrawn
    assert (decision.status.resolved_digest, decision.status.verification) == ("", None)
    decision = ask(cache(verified()), None, Refused("NotCovered", "no policy"))
    assert decision.withdrawn
    assert decision.judge_at is None
    assert holds(decision, "Verified") == ("False", "NotCovered")


def test_former_digest_becomes_current_again_after_tag_moves_back():
    moved = ask(cache(verified(previous_digests=[OTHER])), Judgement(ASKED, NOW, OTHER)).status
    assert (moved.resolved_digest, moved.previous_digests) == (OTHER, [DIGEST])


def test_invalid_policy_leaves_verification_unknown_and_withdraws_nothing():
    broken = Refused("PolicyUnreadable", "it is broken", retryable=True)
    assert holds(ask(cache(), None, broken), "Verified") == ("Unknown", "PolicyUnreadable")
    decision = ask(cache(verified()), None, broken)
    assert holds(decision, "Verified") == ("Unknown", "PolicyUnreadable")
    assert (decision.serves, decision.withdrawn) == (False, False)


@pytest.mark.parametrize("path", ["cache", "/", "/a/../b", "/a//b", "/a/", "/" + "a" * 1025])
def test_invalid_mount_path_is_refused(path):
    refused = read_image(cache(mount_path=path))
    assert isinstance(refused, Refused)
    assert refused.reason == "InvalidSpec"


def test_too_many_secrets_and_too_long_image_are_refused():
    of = cache(image_pull_secrets=tuple(SecretName(f"s{number}") for number in range(17)))
    assert read_image(of).reason == "InvalidSpec"
    of.spec.image = "x" * 100_000
    refused = read_image(of)
    assert refused.reason == "InvalidImage"
    assert len(refused.message) < 1000
