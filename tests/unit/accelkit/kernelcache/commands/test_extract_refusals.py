"""What `accelkit cache extract` tells programs where it refuses an image, and when it judges again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from private_sigstore import PrivateSigstore
from registries import misbehaviour
from registries.caches import cache_folder, publish, sign, write_policy
from registries.hostile import HostileRegistry
from ruamel.yaml import YAML

from accelkit.cli import main

SIGSTORE = PrivateSigstore.new()
KEY = SIGSTORE.key()
OTHER_KEY = SIGSTORE.key()


class Bed:
    """A registry with the image of a cache, which a stranger signed twice."""

    def __init__(self, registry: HostileRegistry, folder: Path) -> None:
        self.registry = registry
        self.folder = folder
        self.image = publish(registry.host, cache_folder(folder / "source"))
        self.name = f"{registry.host}/team/cache:v1"
        self.policy = write_policy(folder, registry.host, KEY)
        for version in (2, 3):
            sign(registry.host, self.image, OTHER_KEY, version=version)

    def __call__(self, command: str, *arguments: object) -> Result:
        folder = [self.folder / "caches"] if command == "extract" else []
        given = ["cache", command, self.name, *folder, "--policy", self.policy, *arguments]
        reached = [*map(str, given), "--plain-http", self.registry.host]
        return CliRunner().invoke(main, reached, prog_name="accelkit", catch_exceptions=False)


@pytest.fixture
def bed(hostile_registry: HostileRegistry, tmp_path: Path) -> Bed:
    return Bed(hostile_registry, tmp_path)


def test_json_refusal_of_extract_equals_that_of_verify(bed: Bed) -> None:
    told = bed("extract", "-o", "json")
    assert told.exit_code == 1
    read = json.loads(told.stdout)
    assert (read["verified"], read["digest"], read["retryable"]) == (False, None, False)
    assert read["reason"] == "SignatureInvalid"
    assert [each["reason"] for each in read["failures"]] == ["SignatureInvalid"] * 2
    assert read == json.loads(bed("verify", "-o", "json").stdout)
    assert YAML(typ="safe").load(bed("extract", "-o", "yaml").stdout) == read
    assert not (bed.folder / "caches").exists()


def test_refusal_without_output_option_is_printed_as_error(bed: Bed) -> None:
    told = bed("extract")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr.startswith("Error: ")
    assert told.stderr.count("SignatureInvalid") >= 2


def test_unavailable_registry_is_retryable_and_exits_with_3(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelkit.kernelcache.registry.exchange._FIRST_BACK_OFF_SECONDS", 0.001)
    bed.registry.on("GET", ".*/manifests/.*", misbehaviour.failing(503, retry_after="0"))
    told = bed("extract", "-o", "json")
    assert told.exit_code == 3
    read = json.loads(told.stdout)
    assert (read["reason"], read["retryable"]) == ("RegistryUnavailable", True)


def test_earlier_verification_is_reused_only_within_verdict_ttl(bed: Bed) -> None:
    sign(bed.registry.host, bed.image, KEY)
    bed.name = f"{bed.registry.host}/team/cache@{bed.image.digest}"
    assert json.loads(bed("extract", "-o", "json").stdout)["changed"] is True
    for options, asks in (((), False), (("--verdict-ttl", "3600"), False), (("--verdict-ttl", "0"), True)):
        bed.registry.requests.clear()
        assert bed("extract", *options).exit_code == 0
        assert bool(bed.registry.requests) is asks
