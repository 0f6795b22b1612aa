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


def test_a_policy_that_says_nothing_means_a_day(tmp_path: Path) -> None:
    assert believed(tmp_path, policy(keyless())) == DAY


@pytest.mark.parametrize("seconds", [0, 1, 365 * DAY])
def test_a_policy_says_how_long(tmp_path: Path, seconds: int) -> None:
    assert believed(tmp_path, policy(keyless(), verdictTtlSeconds=seconds)) == seconds


def test_the_shortest_time_of_those_that_cover_the_image_counts(tmp_path: Path) -> None:
    documents = (
        policy(keyless(), name="long", verdictTtlSeconds=7 * DAY),
        policy(keyless(), name="short", verdictTtlSeconds=60),
        policy(keyless(), name="other", images=["quay.io/other/*"], verdictTtlSeconds=1),
        policy(keyless(), name="team", namespaces=["team"], verdictTtlSeconds=2),
    )
    assert believed(tmp_path, *documents) == 60
    assert believed(tmp_path, *documents, namespace="team") == 2


def test_nothing_is_accepted_of_what_no_policy_covers(tmp_path: Path) -> None:
    assert believed(tmp_path, policy(keyless(), images=["quay.io/other/*"])) == 0


@pytest.mark.parametrize("seconds", [-1, 365 * DAY + 1, "60", 1.5, True, None])
def test_a_time_that_cannot_be_is_refused(tmp_path: Path, seconds: object) -> None:
    with pytest.raises(ConfigurationError, match="verdictTtlSeconds"):
        believed(tmp_path, policy(keyless(), verdictTtlSeconds=seconds))
