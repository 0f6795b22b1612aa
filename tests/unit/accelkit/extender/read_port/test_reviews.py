"""Whose token may read, by what the API server says."""

from types import SimpleNamespace

import pytest

from accelkit.errors import AccessError, ApiError, NotReadyError
from accelkit.extender.read_port import reviews as module
from accelkit.extender.read_port.reviews import Reviewer

ACCESS = "localsubjectaccessreviews"


@pytest.fixture
def reviewer(api):
    return Reviewer(api, "d", "s")


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


async def refusal(reviewer, token):
    with pytest.raises(AccessError) as raised:
        await reviewer.check(token)
    return raised.value.status, str(raised.value)


async def test_token_check_reviews_token_and_access_to_service_proxy(api, reviewer):
    await reviewer.check("good")
    known, allowed = api.requests
    assert known.body["spec"] == {"token": "good", "audiences": ["accelkit.io/inspect"]}
    assert allowed.body["metadata"] == {"namespace": "d"}
    assert allowed.body["spec"] == {
        "user": "ann",
        "uid": "u",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "namespace": "d",
            "verb": "get",
            "version": "v1",
            "resource": "services",
            "subresource": "proxy",
            "name": "https:s:read",
        },
    }


async def test_each_verb_is_reviewed_once(api, reviewer):
    for verb in ("get", "create", "get", "create"):
        await reviewer.check("good", verb)
    asked = [each.body["spec"] for each in api.requests if ACCESS in each.path]
    assert [spec["resourceAttributes"]["verb"] for spec in asked] == ["get", "create"]
    api.verbs = {"get"}
    with pytest.raises(AccessError, match="ann may not create"):
        await Reviewer(api, "d", "s").check("good", "create")


@pytest.mark.parametrize("token", ["unknown", "other", "plain"])
async def test_unauthenticated_token_is_refused_without_access_review(api, reviewer, token):
    sentence = "the API server rejects the token for the audience accelkit.io/inspect"
    assert await refusal(reviewer, token) == (401, sentence)
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("token", "begin"), [("", "this port requires a token"), ("x" * 20_000, "the token is invalid")]
)
async def test_missing_or_oversized_token_is_refused_without_api_request(api, reviewer, token, begin):
    status, sentence = await refusal(reviewer, token)
    assert status == 401
    assert sentence.startswith(begin)
    assert "X-Accelkit-Token" in sentence
    assert api.requests == []


@pytest.mark.parametrize("part", ["tokenreviews", ACCESS])
async def test_failed_review_denies_access_and_is_not_cached(api, reviewer, part):
    api.fail(ApiError("POST /x received no response"), path=part)
    with pytest.raises(NotReadyError, match="the API server cannot review the token: POST /x received no response"):
        await reviewer.check("good")
    await reviewer.check("good")


@pytest.mark.parametrize("part", ["tokenreviews", ACCESS])
@pytest.mark.parametrize("answer", [[], {}, {"status": {"authenticated": "yes", "allowed": "yes"}}])
async def test_malformed_review_response_denies_access(api, reviewer, part, answer):
    (path,) = [path for path in api.reviews if path.endswith(part)]
    api.reviews[path] = lambda _: answer
    with pytest.raises(NotReadyError, match="cannot read the response of the API server to the review"):
        await reviewer.check("good")


@pytest.mark.parametrize("token", ["good", "poor", "unknown"])
async def test_review_results_are_cached_for_ten_seconds(api, reviewer, clock, token):
    async def outcome():
        try:
            await reviewer.check(token)
        except AccessError as exc:
            return exc.status
        return 200

    first = await outcome()
    asked = len(api.requests)
    clock.now += 9.9
    assert await outcome() == first
    assert len(api.requests) == asked
    clock.now += 0.2
    assert await outcome() == first
    assert len(api.requests) == 2 * asked


async def test_review_cache_evicts_the_oldest_result(api, reviewer, monkeypatch):
    monkeypatch.setattr(module, "_KEEP_ANSWERS", 2)
    await reviewer.check("good")
    for unknown in ("a", "b"):
        await refusal(reviewer, unknown)
    asked = len(api.requests)
    await refusal(reviewer, "b")
    assert len(api.requests) == asked
    await reviewer.check("good")
    assert len(api.requests) == asked + 2


async def test_reviewer_does_not_store_tokens(reviewer):
    await reviewer.check("good")
    assert b"good" not in repr(vars(reviewer)).encode()


async def test_token_is_recently_valid_for_five_minutes_or_until_rejected(api, reviewer, clock):
    assert not reviewer.was_valid_recently("good")
    await reviewer.check("good")
    assert reviewer.was_valid_recently("good")
    clock.now += 299
    assert reviewer.was_valid_recently("good")
    clock.now += 2
    assert not reviewer.was_valid_recently("good")
    await reviewer.check("good")
    api.readers.clear()
    clock.now += 11
    await refusal(reviewer, "good")
    assert not reviewer.was_valid_recently("good")
