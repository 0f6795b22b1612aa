"""How long a verdict is believed, as policies say it."""

from __future__ import annotations

from pathlib import Path

import pytest
from signing_stand import keyless, policy, policy_file

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.signatures import load_policies

IMAGE = parse_reference("quay.io/acme/cache:v1")
DAY = 24 * 3600


def believed(folder: Path, *documents: str, namespace: str | None = None) -> int:
    return load_policies(policy_file(folder, *documents)).find_verdict_ttl(IMAGE, namespace)


def test_default_verdict_ttl_is_one_day(tmp_path: Path) -> None:
    assert believed(tmp_path, policy(keyless())) == DAY


@pytest.mark.parametrize("seconds", [0, 1, 365 * DAY])
def test_verdict_ttl_is_read_from_policy(tmp_path: Path, seconds: int) -> None:
    assert believed(tmp_path, policy(keyless(), verdictTtlSeconds=seconds)) == seconds


def test_verdict_ttl_is_minimum_of_policies_that_cover_image(tmp_path: Path) -> None:
    documents = (
        policy(keyless(), name="long", verdictTtlSeconds=7 * DAY),
        policy(keyless(), name="short", verdictTtlSeconds=60),
        policy(keyless(), name="other", images=["quay.io/other/*"], verdictTtlSeconds=1),
        policy(keyless(), name="team", namespaces=["team"], verdictTtlSeconds=2),
    )
    assert believed(tmp_path, *documents) == 60
    assert believed(tmp_path, *documents, namespace="team") == 2


def test_verdict_ttl_is_zero_without_policy_that_covers_image(tmp_path: Path) -> None:
    assert believed(tmp_path, policy(keyless(), images=["quay.io/other/*"])) == 0


@pytest.mark.parametrize("seconds", [-1, 365 * DAY + 1, "60", 1.5, True, None])
def test_invalid_verdict_ttl_is_rejected(tmp_path: Path, seconds: object) -> None:
    with pytest.raises(ConfigurationError, match="verdictTtlSeconds"):
        believed(tmp_path, policy(keyless(), verdictTtlSeconds=seconds))
