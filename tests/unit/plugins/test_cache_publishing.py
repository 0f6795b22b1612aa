import json

import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import cache_build, cache_copy


@pytest.fixture
def cosign(tmp_path, monkeypatch):
    """A program in cosign's place, which notes what it is called with and what it may see."""
    program = tmp_path / "cosign"
    program.write_text(
        '#!/bin/sh\n[ "$2" = --help ] || { echo "$@"; echo "$COSIGN_PASSWORD"; '
        f'cat "$DOCKER_CONFIG/config.json"; }} >> {tmp_path}/called 2>/dev/null\n:\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("COSIGN_PASSWORD", "of the key")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    return program


def building(cache_bed, **more):
    name = f"{cache_bed.host}/team/built:v1"
    return cache_bed.arguments(image=name, folder=str(cache_bed.source), architecture="amd64", **more)


def test_cache_build_is_idempotent(run_module, cache_bed):
    answer = run_module(cache_build, building(cache_bed))
    assert (answer["changed"], answer["pushed"], answer["signed"]) == (True, True, False)
    assert answer["diff"]["before"]["digest"] is None
    assert answer["diff"]["after"]["digest"] == answer["digest"]
    assert cache_bed.pushed("team/built", "v1") is not None
    written = len(cache_bed.registry.received("*", ".*/(uploads|manifests)/.*"))
    again = run_module(cache_build, building(cache_bed))
    assert (again["changed"], again["pushed"], again["digest"]) == (False, False, answer["digest"])
    sent = cache_bed.registry.received("*", ".*/(uploads|manifests)/.*")[written:]
    assert {each.method for each in sent} == {"GET"}


def test_check_mode_of_cache_build_pushes_nothing(run_module, cache_bed):
    checked = run_module(cache_build, building(cache_bed), check=True)
    assert (checked["changed"], checked["pushed"]) == (True, False)
    assert cache_bed.pushed("team/built", "v1") is None
    answer = run_module(cache_build, building(cache_bed))
    assert checked["diff"] == answer["diff"]
    assert run_module(cache_build, building(cache_bed), check=True)["changed"] is False


def test_changed_folder_updates_tag(run_module, cache_bed):
    before = run_module(cache_build, building(cache_bed))["digest"]
    (next(cache_bed.source.iterdir()) / "more").write_text("more")
    answer = run_module(cache_build, building(cache_bed))
    assert answer["changed"] is True
    assert answer["diff"]["before"]["digest"] == before != answer["digest"]


def test_cache_build_signs_image_without_signature_once(run_module, cache_bed, cosign, tmp_path):
    given = {**building(cache_bed, sign=True, sign_key="k8s://a/b", cosign=str(cosign)), "image": cache_bed.name}
    assert run_module(cache_build, given, check=True)["signed"] is True
    assert not (tmp_path / "called").exists()
    answer = run_module(cache_build, given)
    assert (answer["changed"], answer["pushed"], answer["signed"]) == (True, False, True)
    assert answer["diff"]["before"] == {"digest": cache_bed.image.digest, "signed": False}
    command, of_the_key, *_rest = (tmp_path / "called").read_text().splitlines()
    assert command.startswith("sign --yes --key k8s://a/b ")
    assert command.endswith(f" {cache_bed.host}/team/cache@{cache_bed.image.digest}")
    assert of_the_key == "of the key"
    cache_bed.sign(cache_bed.other_key)
    again = run_module(cache_build, given)
    assert (again["changed"], again["signed"]) == (False, False)
    assert again["diff"]["before"] == again["diff"]["after"] == {"digest": cache_bed.image.digest, "signed": True}


def test_attestation_does_not_count_as_signature(run_module, cache_bed, cosign):
    cache_bed.attest()
    given = {**building(cache_bed, sign=True, cosign=str(cosign)), "image": cache_bed.name}
    assert run_module(cache_build, given, check=True)["signed"] is True


def test_cosign_receives_registry_login_that_is_absent_from_result(run_module, cache_bed, cosign, tmp_path):
    logins = [{"registry": cache_bed.host, "username": "team", "password": "se:cret"}]
    given = {**building(cache_bed, sign=True, cosign=str(cosign), registry_logins=logins), "image": cache_bed.name}
    answer = run_module(cache_build, given)
    assert answer["signed"] is True
    auths = json.loads((tmp_path / "called").read_text().splitlines()[-1])["auths"]
    assert auths == {cache_bed.host: {"auth": "dGVhbTpzZTpjcmV0"}}
    assert "se:cret" not in json.dumps(answer)


def copying(cache_bed, **more):
    return cache_bed.arguments(source=cache_bed.name, target=f"{cache_bed.host}/team/copy:v1", **more)


def test_cache_copy_copies_image_and_signatures_once(run_module, cache_bed):
    cache_bed.sign()
    cache_bed.sign(version=2)
    checked = run_module(cache_copy, copying(cache_bed), check=True)
    assert (checked["changed"], checked["manifests"], checked["signatures"]) == (True, 0, 2)
    assert cache_bed.pushed("team/copy", "v1") is None
    answer = run_module(cache_copy, copying(cache_bed))
    assert (answer["changed"], answer["manifests"], answer["signatures"]) == (True, 3, 2)
    assert answer["diff"] == checked["diff"]
    assert cache_bed.pushed("team/copy", "v1") == cache_bed.image.manifest
    again = run_module(cache_copy, copying(cache_bed))
    assert (again["changed"], again["manifests"], again["signatures"]) == (False, 0, 0)


@pytest.mark.parametrize("version", [2, 3])
def test_cache_copy_copies_signature_added_later(run_module, cache_bed, version):
    run_module(cache_copy, copying(cache_bed))
    cache_bed.sign(version=version)
    without = run_module(cache_copy, copying(cache_bed, signatures=False))
    assert (without["changed"], without["signatures"]) == (False, 0)
    answer = run_module(cache_copy, copying(cache_bed))
    assert (answer["changed"], answer["signatures"]) == (True, 1)
    assert answer["diff"]["before"]["digest"] == answer["diff"]["after"]["digest"]
    assert run_module(cache_copy, copying(cache_bed))["changed"] is False


def test_folder_without_cache_is_rejected_with_one_sentence(run_module, cache_bed, tmp_path):
    for folder in (tmp_path / "none", tmp_path / "caches"):
        (tmp_path / "caches").mkdir(exist_ok=True)
        answer = run_module(cache_build, {**building(cache_bed), "folder": str(folder)})
        assert str(folder) in answer["msg"]
        assert "exception" not in answer
