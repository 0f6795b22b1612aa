"""What `accelkit cache extract` tells programs where it refuses an image, and when it judges again."""

from __future__ import annotations

import json

import pytest
from click.testing import Result
from command_bed import KEY, OTHER_KEY
from registries import misbehaviour
from registries.caches import sign
from ruamel.yaml import YAML


@pytest.fixture
def refuse(bed):
    """Runs a command about the image, which a stranger signed twice."""
    for version in (2, 3):
        sign(bed.host, bed.image, OTHER_KEY, version=version)

    def run(command: str, *arguments: object) -> Result:
        return (bed.verify if command == "verify" else bed.extract)(*arguments, "--policy", bed.policy)

    return run


def test_a_refusal_is_what_verify_says_of_it_and_an_error_to_people(bed, refuse) -> None:
    told = refuse("extract", "-o", "json")
    assert told.exit_code == 1
    read = json.loads(told.stdout)
    assert (read["verified"], read["digest"], read["retryable"]) == (False, None, False)
    assert read["reason"] == "SignatureInvalid"
    assert [each["reason"] for each in read["failures"]] == ["SignatureInvalid"] * 2
    assert read == json.loads(refuse("verify", "-o", "json").stdout)
    assert YAML(typ="safe").load(refuse("extract", "-o", "yaml").stdout) == read
    told = refuse("extract")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr.startswith("Error: ")
    assert told.stderr.count("SignatureInvalid") >= 2
    assert not (bed.folder / "caches").exists()


def test_a_registry_that_is_down_is_no_verdict(bed, refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelkit.kernelcache.registry.exchange._FIRST_BACK_OFF_SECONDS", 0.001)
    bed.registry.on("GET", ".*/manifests/.*", misbehaviour.failing(503, retry_after="0"))
    told = refuse("extract", "-o", "json")
    assert told.exit_code == 3
    read = json.loads(told.stdout)
    assert (read["reason"], read["retryable"]) == ("RegistryUnavailable", True)


def test_an_earlier_verification_is_believed_no_longer_than_it_is_told(bed) -> None:
    sign(bed.host, bed.image, KEY)
    bed.name = f"{bed.host}/team/cache@{bed.image.digest}"
    order = ("--policy", bed.policy)
    assert json.loads(bed.extract(*order, "-o", "json").stdout)["changed"] is True
    for options, asks in (((), False), (("--verdict-ttl", "3600"), False), (("--verdict-ttl", "0"), True)):
        bed.registry.requests.clear()
        assert bed.extract(*order, *options).exit_code == 0
        assert bool(bed.registry.requests) is asks
