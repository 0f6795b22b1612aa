"""Which pods are asked about, and whom the API server trusts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from webhook_pods import make_cache

from accelkit.cachecontroller.webhook.matching import MAX_EXPRESSION, Exactness, build_expression, list_claims_of
from accelkit.cachecontroller.webhook.registration import merge_authorities, read_authorities
from accelkit.errors import ConfigurationError
from accelkit.install.certificates.issuing import Authority


def test_caches_are_named_with_their_namespaces():
    caches = [make_cache("a", "one"), make_cache("b", "", spec={"workload_namespaces": ("one", "two")})]
    assert list_claims_of(caches) == {("one", "a"), ("one", "b"), ("two", "b")}
    expression, exactness = build_expression(list_claims_of(caches))
    assert exactness is Exactness.CLAIMS
    assert "['one/a','one/b','two/b']" in expression


@pytest.mark.parametrize("name", ["x'] || true || ['", "Upper", "", "-", "a b", "é"])
def test_what_is_no_name_never_becomes_a_part_of_the_expression(name):
    assert list_claims_of([make_cache("b", "", spec={"workload_namespaces": (name, "two")})]) == {("two", "b")}


def test_a_long_name_is_known_by_the_beginning_of_its_pinned_claims():
    name = "k" * 253
    (_, short), (_, whole) = sorted(list_claims_of([make_cache(name, "one")]), key=lambda each: len(each[1]))
    assert whole == name
    assert len(short) == 240


def test_200_caches_of_100_namespaces_fit_less_exactly():
    caches = [
        make_cache(f"cache-{number}", "", spec={"workload_namespaces": tuple(f"team-{each}" for each in range(100))})
        for number in range(200)
    ]
    claims = list_claims_of(caches)
    assert len(claims) == 20_000
    expression, exactness = build_expression(claims)
    assert exactness is Exactness.NAMES
    assert "'cache-199'" in expression
    assert "'team-99'" in expression


SMALL = {("small", "kernels"), ("tiny", "own")}
CROWD = {("crowd", f"cache-{number:04}") for number in range(100)} | {("gang", "cache-0001"), ("gang", "x" * 200)}


@pytest.mark.parametrize(
    ("most", "exactness", "present", "absent"),
    [
        (4000, Exactness.CLAIMS, ["'small/kernels'", "'crowd/cache-0001'"], []),
        (1600, Exactness.NAMES, ["'small/kernels'", "request.namespace in ['crowd'] && name in ['cache-0000',"], []),
        (700, Exactness.NAMESPACES, ["'small/kernels'", "request.namespace in ['crowd']"], ["cache-0002"]),
        (60, Exactness.NAMESPACES, ["'small/kernels'", "request.namespace in ['crowd','gang']"], ["cache-0002"]),
        (40, Exactness.NAMESPACES, ["'tiny/own'", "in ['crowd','gang','small']"], ["'small/kernels'"]),
        (33, Exactness.NAMESPACES, ["in [] || request.namespace in ['crowd','gang','small','tiny']"], ["own"]),
        (5, Exactness.ALL, ["exists(name, true)"], ["crowd"]),
    ],
)
def test_whoever_has_many_caches_has_his_own_pods_asked_about_less_exactly(most, exactness, present, absent):
    expression, found = build_expression(SMALL | CROWD, most)
    assert found is exactness
    assert [each for each in present if each not in expression] == []
    assert [each for each in absent if each in expression] == []


def test_without_caches_only_pods_that_mention_us_are_asked_about():
    expression, exactness = build_expression(frozenset())
    assert exactness is Exactness.CLAIMS
    assert "volumes" not in expression
    assert "cache.accelkit.io/mount" in expression


def test_the_largest_expression_is_within_what_the_api_server_reads():
    claims = {("n", f"{number:05}") for number in range(100_000)}
    largest = 0
    while len(claims) > 10:
        expression, _ = build_expression(claims)
        largest = max(largest, len(expression))
        claims = set(sorted(claims)[: len(claims) // 2])
    assert MAX_EXPRESSION // 2 < largest < 100_000


def test_authorities_are_those_beside_the_certificate(tmp_path):
    authority = Authority("ours")
    leaf = authority.issue_server("webhook", ["webhook.accelkit.svc"])
    (tmp_path / "tls.crt").write_bytes(leaf.certificate)
    assert read_authorities(tmp_path / "tls.crt") == leaf.certificate
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    assert read_authorities(tmp_path / "tls.crt") == authority.certificate
    (tmp_path / "ca.crt").write_bytes(b"nothing")
    with pytest.raises(ConfigurationError, match=r"ca\.crt"):
        read_authorities(tmp_path / "tls.crt")
    with pytest.raises(ConfigurationError, match="missing"):
        read_authorities(tmp_path / "missing" / "missing.crt")


def test_a_former_authority_is_trusted_until_it_ends():
    present, former = Authority("present").certificate, Authority("former", timedelta(days=10)).certificate
    merged = merge_authorities(present, former)
    assert merged == present + former
    assert merge_authorities(present, merged) == merged
    assert merge_authorities(present, former, datetime.now(UTC) + timedelta(days=11)) == present
    assert merge_authorities(present, b"nonsense") == present


def test_no_more_than_eight_authorities_are_kept():
    former = b"".join(Authority(f"former-{number}").certificate for number in range(9))
    assert merge_authorities(Authority("present").certificate, former).count(b"BEGIN CERTIFICATE") == 8
