"""Names of images: what they are read as, and what is no name."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accelkit.errors import CacheError
from accelkit.kernelcache.oci.reference import Reference, compute_digest, is_digest, parse_reference

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("app", Reference("docker.io", "library/app", "latest")),
        ("team/app:1", Reference("docker.io", "team/app", "1")),
        ("docker.io/app", Reference("docker.io", "library/app", "latest")),
        ("index.docker.io/team/app", Reference("docker.io", "team/app", "latest")),
        ("INDEX.docker.io/app", Reference("docker.io", "library/app", "latest")),
        ("registry.example.com/app", Reference("registry.example.com", "app", "latest")),
        ("Registry.Example.COM/a/b/c:v1", Reference("registry.example.com", "a/b/c", "v1")),
        ("registry:5000/app", Reference("registry:5000", "app", "latest")),
        ("registry:5000/app:5000", Reference("registry:5000", "app", "5000")),
        ("registry:5000", Reference("docker.io", "library/registry", "5000")),
        ("localhost/app", Reference("localhost", "app", "latest")),
        ("LocalHost/app", Reference("localhost", "app", "latest")),
        ("[::1]:5000/app", Reference("[::1]:5000", "app", "latest")),
        ("[FE80::A]/app:1", Reference("[fe80::a]", "app", "1")),
        (f"r.io/app@{DIGEST}", Reference("r.io", "app", None, DIGEST)),
        (f"r.io/app:v1@{DIGEST}", Reference("r.io", "app", "v1", DIGEST)),
        ("a__b/c-d--e.f/g", Reference("docker.io", "a__b/c-d--e.f/g", "latest")),
        ("r.io/app:" + "T" * 128, Reference("r.io", "app", "T" * 128)),
    ],
)
def test_reference_is_parsed_with_defaults(text, expected):
    assert parse_reference(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " app",
        "app\n",
        "App",
        "r.io/App",
        "User/app",  # a host to some, a user to others
        "r.io/",
        "/app",
        "r.io//app",
        "r.io/../app",
        "r.io/a/./b",
        "r.io/-app",
        "r.io/a___b",
        "r.io/a..b",
        "r.io/app:",
        "r.io/app:-1",
        "r.io/app:a/b",
        "r.io/app:a:b",
        "r.io/app:" + "t" * 129,
        "r.io/app@",
        "r.io/app@sha256:" + "0A" * 32,
        "r.io/app@sha256:" + "0a" * 31,
        "r.io/app@sha512:" + "0a" * 64,
        f"r.io/app@{DIGEST}@{DIGEST}",
        "http://r.io/app",
        "user@r.io/app",
        "r.io:port/app",
        "r.io:0/app",
        "r.io:65536/app",
        "r.io:\u0665/app",
        "r_.io/app",
        "-r.io/app",
        "r..io/app",
        "a" * 64 + ".io/app",
        "[:::]/app",
        "[1.2.3.4]/app",
        "::1/app",
        "r.io/" + "a" * 251,
        "a" * 100_000,
        "r.io/app@" + "sha256:" * 100_000,
    ],
)
def test_invalid_reference_is_rejected_with_short_message(text):
    with pytest.raises(CacheError) as refused:
        parse_reference(text)
    assert len(str(refused.value)) < 1200


def test_longest_allowed_repository_name_is_accepted():
    assert parse_reference("r.io/" + "a" * 250).repository == "a" * 250


def test_library_prefix_counts_towards_name_length():
    with pytest.raises(CacheError, match="longer than 255"):
        parse_reference("a" * 240)


def test_digest_takes_precedence_over_tag():
    assert parse_reference(f"r.io/app:v1@{DIGEST}").version == DIGEST


def test_require_digest_fails_without_digest():
    assert parse_reference(f"r.io/app@{DIGEST}").require_digest() == DIGEST
    with pytest.raises(CacheError, match="has no digest"):
        parse_reference("r.io/app:v1").require_digest()


def test_digest_and_tag_of_reference_can_be_replaced():
    reference = parse_reference("r.io/app:v1")
    assert str(reference.with_digest(DIGEST)) == f"r.io/app:v1@{DIGEST}"
    assert str(reference.with_digest(DIGEST).with_tag("v2")) == "r.io/app:v2"


def test_computed_digest_is_valid():
    assert is_digest(compute_digest(b""))
    assert compute_digest(b"").endswith("7852b855")
    assert not is_digest(compute_digest(b"") + "\n")


NAMES = st.one_of(
    st.text(alphabet=st.sampled_from("aA0.-_:/@[]\n \u0661ü"), max_size=40),
    st.from_regex(re.compile(r"[a-zA-Z.]{1,12}(:[0-9]{1,6})?/[a-z._/-]{1,12}(:[\w.-]{1,5})?(@sha256:[0-9a-f]{64})?")),
    st.text(max_size=40),
)


@given(NAMES)
@example("Index.Docker.io/app")
@example("User/app")
@example("DOCKER.IO/app")
def test_parsed_reference_is_unchanged_after_round_trip(text):
    try:
        reference = parse_reference(text)
    except CacheError:
        return
    assert parse_reference(str(reference)) == reference
