import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import (
    cache_build,
    cache_copy,
    cache_extract,
    cache_info,
    cache_verify,
)

UNSIGNED = "insecure_skip_signatures"


@pytest.mark.parametrize("check", [True, False])
def test_cache_verify_returns_digest_of_signed_image(run_module, cache_bed, check):
    cache_bed.sign()
    answer = run_module(cache_verify, cache_bed.verifying(), check=check)
    assert (answer["changed"], answer["verified"], answer["digest"]) == (False, True, cache_bed.image.digest)
    assert answer["image"] == f"{cache_bed.name}@{cache_bed.image.digest}"
    (signature,) = answer["signatures"]
    assert (signature["policy"], signature["signer"], signature["format"]) == ("acme", "ci", "cosign-v3")


def test_cache_verify_returns_compatibility_with_cards(run_module, cache_bed):
    cache_bed.sign()
    assert run_module(cache_verify, cache_bed.verifying())["compatibility"] is None
    answer = run_module(cache_verify, cache_bed.verifying(cards=["cuda:90", "cuda:80"], triton_version="3.2.0"))
    assert (answer["verified"], answer["compatibility"]["fit"]) == (True, "some")
    assert [each["hit"] for each in answer["compatibility"]["cards"]] == ["likely", "miss"]


def test_cache_verify_returns_failure_reason_of_each_signature(run_module, cache_bed):
    cache_bed.sign(cache_bed.other_key)
    answer = run_module(cache_verify, cache_bed.verifying())
    assert answer["failed"] is True
    assert "does not satisfy policy acme" in answer["msg"]
    assert (answer["reason"], answer["retryable"], answer["verified"]) == ("SignatureInvalid", False, False)
    assert [each["reason"] for each in answer["failures"]] == ["SignatureInvalid"]


def test_cache_verify_rejects_image_without_matching_policy(run_module, cache_bed):
    answer = run_module(cache_verify, {**cache_bed.verifying(), "image": "quay.io/acme/cache:v1"})
    assert (answer["reason"], answer["retryable"]) == ("NotCovered", False)


@pytest.mark.parametrize("module", [cache_verify, cache_extract])
def test_unavailable_registry_is_retryable(run_module, cache_bed, module, monkeypatch):
    monkeypatch.setattr("accelkit.kernelcache.registry.exchange._FIRST_BACK_OFF_SECONDS", 0.001)
    cache_bed.fails_with(503)
    folder = {"folder": str(cache_bed.base)} if module is cache_extract else {}
    answer = run_module(module, cache_bed.verifying(**folder))
    assert (answer["reason"], answer["retryable"]) == ("RegistryUnavailable", True)


def test_unreadable_policy_error_is_one_sentence(run_module, cache_bed):
    answer = run_module(cache_verify, {**cache_bed.verifying(), "policy": "/nowhere/policy"})
    assert "cannot read the signer policy /nowhere/policy" in answer["msg"]
    assert "exception" not in answer


def test_cache_extract_is_idempotent(run_module, cache_bed):
    cache_bed.sign()
    answer = run_module(cache_extract, cache_bed.extracting(policy=cache_bed.policy))
    folder = cache_bed.base / cache_bed.image.digest.replace(":", "-") / "cache"
    assert (answer["changed"], answer["path"], answer["mount_path"]) == (True, str(folder), str(folder))
    assert answer["diff"]["before"] == {}
    assert answer["diff"]["after"]["digest"] == cache_bed.image.digest
    assert len([*folder.rglob("*.cubin")]) == 1
    again = run_module(cache_extract, cache_bed.extracting(policy=cache_bed.policy))
    assert again["changed"] is False
    assert again["diff"]["before"] == again["diff"]["after"] == answer["diff"]["after"]


def test_check_mode_of_cache_extract_verifies_and_returns_paths(run_module, cache_bed):
    cache_bed.sign()
    answer = run_module(cache_extract, cache_bed.extracting(policy=cache_bed.policy, mount_path="/cache"), check=True)
    assert not cache_bed.base.exists()
    real = run_module(cache_extract, cache_bed.extracting(policy=cache_bed.policy, mount_path="/cache"))
    assert answer["changed"] is real["changed"] is True
    assert answer["diff"] == real["diff"]
    assert {name for name in real if name not in answer} >= {"files", "bytes", "extracted_at"}
    known = {name: real[name] for name in ("image", "digest", "path", "mount_path", "format", "signatures")}
    assert {name: answer[name] for name in known} == known
    after = run_module(cache_extract, cache_bed.extracting(policy=cache_bed.policy, mount_path="/cache"), check=True)
    assert (after["changed"], after["files"]) == (False, real["files"])


@pytest.mark.parametrize("check", [True, False])
def test_cache_extract_rejects_unsigned_image(run_module, cache_bed, check):
    answer = run_module(cache_extract, cache_bed.extracting(policy=cache_bed.policy), check=check)
    assert (answer["reason"], answer["failures"][0]["reason"]) == ("NoSignatures", "NoSignatures")
    assert not cache_bed.base.exists()


@pytest.mark.parametrize("check", [True, False])
def test_cache_extract_rejects_image_that_fits_no_card(run_module, cache_bed, check):
    answer = run_module(cache_extract, cache_bed.extracting(**{UNSIGNED: True, "cards": ["cuda:80"]}), check=check)
    assert "the cache fits none of the cards (ArchMismatch" in answer["msg"]
    assert not cache_bed.base.exists()


@pytest.mark.parametrize("check", [True, False])
def test_cache_extract_rejects_image_over_size_limit(run_module, cache_bed, check):
    answer = run_module(cache_extract, cache_bed.extracting(**{UNSIGNED: True, "max_gib": 0}), check=check)
    assert "bytes; at most 0 are allowed" in answer["msg"]
    assert [*cache_bed.base.glob("sha256-*")] == []


def test_cache_extract_applies_size_limit_to_single_file(run_module, cache_bed, monkeypatch):
    asked = []

    async def extract(client, order):
        asked.append(order.limits)
        return await extract_image(client, order)

    extract_image = cache_extract.extract_image
    monkeypatch.setattr(cache_extract, "extract_image", extract)
    assert run_module(cache_extract, cache_bed.extracting(**{UNSIGNED: True, "max_gib": 20}))["changed"] is True
    assert [(each.total_bytes, each.file_bytes) for each in asked] == [(20 << 30, 20 << 30)]


def test_extracting_other_tag_of_same_digest_changes_nothing(run_module, cache_bed):
    cache_bed.sign()
    run_module(cache_extract, cache_bed.extracting(policy=cache_bed.policy))
    cache_bed.caches.publish(cache_bed.host, cache_bed.source, tag="v2")
    other = {**cache_bed.extracting(policy=cache_bed.policy), "image": f"{cache_bed.host}/team/cache:v2"}
    checked, answer = run_module(cache_extract, other, check=True), run_module(cache_extract, other)
    assert (checked["changed"], answer["changed"], checked["image"]) == (False, False, answer["image"])
    assert answer["image"].startswith(f"{cache_bed.host}/team/cache:v2@")


@pytest.mark.parametrize("check", [True, False])
def test_cache_extract_returns_verdict_for_each_card(run_module, cache_bed, check):
    given = cache_bed.extracting(**{UNSIGNED: True, "cards": ["cuda:90", "cuda:80"]})
    verdicts = run_module(cache_extract, given, check=check)["compatibility"]
    assert (verdicts["fit"], [each["verdict"] for each in verdicts["cards"]]) == (
        *("some", ["compatible", "incompatible"]),
    )


@pytest.mark.parametrize("by", ["tag", "digest"])
def test_extracted_cache_is_verified_again_with_other_policy(run_module, cache_bed, by):
    name = cache_bed.name if by == "tag" else f"{cache_bed.name}@{cache_bed.image.digest}"
    run_module(cache_extract, {**cache_bed.extracting(**{UNSIGNED: True}), "image": name})
    signed = {**cache_bed.extracting(policy=cache_bed.policy), "image": name}
    assert run_module(cache_extract, signed)["reason"] == "NoSignatures"
    cache_bed.sign()
    checked = run_module(cache_extract, signed, check=True)
    answer = run_module(cache_extract, signed)
    assert (answer["changed"], checked["changed"]) == (True, True)
    assert checked["diff"] == answer["diff"]
    assert answer["diff"]["before"]["signatures"] == []
    assert answer["diff"]["after"]["signatures"][0].endswith("(cosign-v3, policy acme)")
    assert run_module(cache_extract, signed)["changed"] is False


def test_cache_info_returns_metadata_and_compatibility_of_image(run_module, cache_bed):
    answer = run_module(cache_info, cache_bed.arguments(image=cache_bed.name, cards=["cuda:90"]))
    cache = answer["cache"]
    assert (answer["changed"], cache["digest"], cache["format"]) == (False, cache_bed.image.digest, "triton")
    assert (cache["targets"][0]["arch"], cache["compatibility"]["fit"]) == ("90", "all")
    assert "extracted" not in answer


@pytest.mark.parametrize(("version", "hit", "agrees"), [("3.2.0", "likely", True), ("3.3.0", "miss", False)])
def test_cache_info_returns_hit_likelihood_for_workload_versions(run_module, cache_bed, version, hit, agrees):
    run_module(cache_extract, cache_bed.extracting(**{UNSIGNED: True}))
    given = {"cards": ["cuda:90"], "triton_version": version, "folder": str(cache_bed.base)}
    answer = run_module(cache_info, cache_bed.arguments(image=cache_bed.name, **given))
    for told in (answer["cache"], answer["extracted"][0]):
        (card,) = told["compatibility"]["cards"]
        assert (card["hit"], card["factors"][0]["agrees"]) == (hit, agrees)


def test_cache_info_lists_extracted_and_unusable_caches(run_module, cache_bed):
    run_module(cache_extract, cache_bed.extracting(**{UNSIGNED: True}))
    run_module(cache_extract, cache_bed.extracting(**{UNSIGNED: True, "mount_path": "/cache"}))
    broken = cache_bed.base / f"sha256-{'0' * 64}"
    broken.mkdir()
    (cache_bed.base / "something else").mkdir()
    answer = run_module(cache_info, {"folder": str(cache_bed.base)})
    assert [each["digest"] for each in answer["extracted"]] == [cache_bed.image.digest] * 2
    assert "/cache" in {each["mount_path"] for each in answer["extracted"]}
    assert answer["unusable"] == [str(broken)]


def test_cache_info_returns_compatibility_of_extracted_cache_offline(run_module, cache_bed):
    run_module(cache_extract, cache_bed.extracting(**{UNSIGNED: True}))
    answer = run_module(cache_info, {"folder": str(cache_bed.base), "cards": ["cuda:80"]})
    assert answer["extracted"][0]["compatibility"]["fit"] == "none"


@pytest.mark.parametrize("check", [True, False])
def test_extracted_cache_is_checked_for_requested_cards(run_module, cache_bed, check):
    run_module(cache_extract, cache_bed.extracting(**{UNSIGNED: True}))
    given = cache_bed.extracting(**{UNSIGNED: True})
    answer = run_module(cache_extract, {**given, "cards": ["cuda:90"]}, check=check)
    assert (answer["changed"], answer["compatibility"]["fit"]) == (False, "all")
    assert "fits none of the cards" in run_module(cache_extract, {**given, "cards": ["cuda:80"]}, check=check)["msg"]


def test_cache_info_returns_empty_lists_for_missing_folder(run_module, tmp_path):
    answer = run_module(cache_info, {"folder": str(tmp_path / "none")})
    assert (answer["extracted"], answer["unusable"]) == ([], [])


def test_user_names_are_not_masked_in_results(run_module, cache_bed):
    logins = [{"registry": cache_bed.host, "username": "team", "password": "cret"}]
    assert (
        "/team/cache"
        in run_module(cache_info, cache_bed.arguments(image=cache_bed.name, registry_logins=logins))["cache"]["image"]
    )


def test_registry_login_is_used(run_module, cache_bed):
    cache_bed.demands("team", "cret")
    assert (
        "requires a user name and a password"
        in run_module(cache_info, cache_bed.arguments(image=cache_bed.name))["msg"]
    )
    logins = [{"registry": cache_bed.host, "username": "team", "password": "cret"}]
    answer = run_module(cache_info, cache_bed.arguments(image=cache_bed.name, registry_logins=logins))
    assert answer["cache"]["digest"] == cache_bed.image.digest


def test_mirrors_are_used_before_registry(run_module, cache_bed):
    given = {**cache_bed.arguments(image="quay.io/cache:v1"), "registry_mirrors": {"quay.io": f"{cache_bed.host}/team"}}
    assert run_module(cache_info, given)["cache"]["digest"] == cache_bed.image.digest
    listed = {**given, "registry_mirrors": {"quay.io": ["127.0.0.1:1", f"{cache_bed.host}/team"]}}
    assert run_module(cache_info, listed)["cache"]["digest"] == cache_bed.image.digest


IMAGE = {"image": "registry.example/a"}


@pytest.mark.parametrize(
    ("module", "given", "message"),
    [
        (cache_verify, IMAGE, "missing required arguments: policy"),
        (cache_extract, {**IMAGE, "folder": "/nowhere"}, "insecure_skip_signatures is False but all of the following"),
        (cache_extract, {**IMAGE, "folder": "/nowhere", UNSIGNED: True, "policy": "/p"}, "are both given"),
        (
            cache_extract,
            {**IMAGE, "folder": "/nowhere", UNSIGNED: True, "cards": ["h100"]},
            "'h100' is not a valid card",
        ),
        (cache_info, {}, "one of the following is required: image, folder"),
        (cache_info, {**IMAGE, "cards": ["cuda:90"], "node": "n"}, "cannot use both cards and a node"),
        (cache_info, {**IMAGE, "triton_version": "3.2.0"}, "cannot use workload versions without cards"),
        (cache_info, {**IMAGE, "driver_version": "550.54.14"}, "a driver version requires cards"),
        (cache_info, {**IMAGE, "cards": ["cuda:90"], "driver_cuda_version": "new"}, "'new' is not a valid version"),
        (cache_info, {"image": "a/B"}, "'a/B' is not a valid image reference"),
        (cache_info, {**IMAGE, "registry_ca": "/nowhere"}, "/nowhere: "),
        (cache_info, {**IMAGE, "registry_config": ["/nowhere"]}, "/nowhere: "),
        (
            cache_info,
            {**IMAGE, "registry_mirrors": {"quay.io": "http://a"}},
            "'quay.io=http://a' is not a valid mirror",
        ),
        (
            cache_info,
            {**IMAGE, "registry_logins": [{"registry": "a"}]},
            "missing required arguments: password, username",
        ),
        (cache_build, {**IMAGE, "folder": "/nowhere", "image": f"a.b/c@sha256:{'0' * 64}"}, "has a digest"),
        (cache_copy, {"source": "a/b", "target": f"a.b/c@sha256:{'0' * 64}"}, "has a digest"),
    ],
)
def test_invalid_input_is_rejected_with_one_sentence(run_module, module, given, message):
    answer = run_module(module, given)
    assert message in answer["msg"]
    assert "exception" not in answer
