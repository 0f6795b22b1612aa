"""Names of what is made for a cache: they fit, and tell apart what differs."""

import re

import pytest

from accelkit.gkm import names
from accelkit.model.keys import CACHE_DIGEST_LABEL, CACHE_NAME_LABEL, CACHE_SCOPE_LABEL

DIGEST = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
KEYS = ["team/cache", "/cache", "team/" + "a" * 253, "/" + "a" * 252 + "b", "team/" + "a." * 126 + "b", "n" * 63 + "/x"]


@pytest.mark.parametrize("key", KEYS)
def test_names_and_labels_are_valid_for_any_cache_name(key):
    for value in names.build_labels(key, DIGEST).values():
        assert LABEL.fullmatch(value)
    for name in (names.name_claim(key), names.name_pinned_claim(key, DIGEST), names.name_volume(key, "team", DIGEST)):
        assert NAME.fullmatch(name)
        assert len(name) <= 253


@pytest.mark.parametrize("middle", ["-" * 240, "a." * 120, "-" * 225 + "a.b" + "-" * 10, "a" * 240])
def test_pinned_claim_name_starts_with_the_long_cache_name(middle):
    name = f"a{middle}b"
    assert names.name_pinned_claim(f"team/{name}", DIGEST).startswith(name[:200])


def test_claim_has_cache_name_and_pinned_claim_adds_12_digest_digits():
    assert names.name_claim("team/cache") == names.name_claim("/cache") == "cache"
    assert names.name_pinned_claim("team/cache", DIGEST) == "cache-abababababab"


def test_folder_volume_and_link_names_are_unique():
    volumes = {
        names.name_volume(key, namespace, digest)
        for key in ("a/b", "/b", "/a")
        for namespace in ("a", "b")
        for digest in ("", DIGEST, OTHER)
    }
    assert len(volumes) == 18
    assert len({names.build_link_path(key) for key in (*KEYS, "team/b", "/b", "teamb")}) == len(KEYS) + 3
    folders = {names.build_cache_path(digest, path) for digest in (DIGEST, OTHER) for path in ("", "/a", "/b")}
    assert len(folders) == 6
    assert all(each.startswith("/var/lib/accelkit/kernel-caches/sha256-") for each in folders)
    assert names.build_cache_path(DIGEST, "").endswith(f"/sha256-{'ab' * 32}/cache")


def test_volume_path_contains_namespace_and_is_unique():
    paths = {
        names.build_volume_path(key, namespace, digest, path)
        for key in ("a/c", "/c")
        for namespace in ("a", "b")
        for digest, path in (("", ""), (DIGEST, ""), (DIGEST, "/a"), (OTHER, ""))
    }
    # The files of a digest are the same for all caches of a namespace.
    assert len(paths) == 10
    entry = r"([0-9a-f]{20}|sha256-[0-9a-f]{64}(-[0-9a-f]{32})?)"
    assert all(re.fullmatch(rf"/var/lib/accelkit/kernel-caches/namespaces/[ab]/{entry}", each) for each in paths)
    assert names.build_volume_path("/c", "a") == names.build_entry_path("a", names.build_link_path("/c")[-20:])
    assert names.build_volume_path("a/c", "b", DIGEST, "/a").startswith(names.build_entry_path("b", "") + "/")


def test_cache_labels_are_unique():
    one, two = (names.build_labels("team/" + "a" * 200 + end)[CACHE_NAME_LABEL] for end in ("b", "c"))
    assert one != two
    assert len(one) == len(two) == 63
    labels = [names.build_labels(key) for key in ("team/cache", "/cache")]
    assert [each[CACHE_SCOPE_LABEL] for each in labels] == ["team", "cluster"]
    assert CACHE_DIGEST_LABEL not in labels[0]


def test_pinned_claim_name_is_parsed_even_if_shortened():
    for key in ("team/llama", "/llama-0123456789ab", "team/" + "a" * 253):
        claim = names.name_pinned_claim(key, DIGEST)
        assert len(claim) <= 253
        assert names.split_pinned_claim(claim) == (names.begin_pinned_claim(key), names.short_digest(DIGEST))
    assert [names.split_pinned_claim(each) for each in ("llama", "-0123456789ab", "a-0123456789aB")] == [("", "")] * 3
