"""What is announced is kept for a while, and no more than there is room for."""

from __future__ import annotations

import pytest

from accelkit.cachecontroller.webhook.announcements import Announcements

NOW = 1_000_000.0


def test_what_is_announced_is_read_again_until_it_is_old():
    made = Announcements.read("", NOW)
    made.note({("one", "a"), ("two", "b.c")})
    text = made.write()
    assert Announcements.read(text, NOW + 119).claims == {("one", "a"), ("two", "b.c")}
    assert Announcements.read(text, NOW + 120).claims == frozenset()
    # A clock that went back by more than clocks differ.
    assert Announcements.read(text, NOW - 120).claims == frozenset()


def test_a_cache_that_is_there_is_forgotten_once_every_replica_has_seen_it():
    made = Announcements.read("", NOW)
    made.note({("one", "a"), ("one", "b")})
    made.forget({("one", "a"), ("three", "c")})
    # The next to write may be a replica that has not seen it yet.
    assert made.claims == {("one", "a"), ("one", "b")}
    later = Announcements.read(made.write(), NOW + 30)
    later.forget({("one", "a"), ("three", "c")})
    assert later.claims == {("one", "b")}


def test_what_is_announced_again_is_kept_from_then_on():
    made = Announcements.read("", NOW)
    made.note({("one", "a")})
    again = Announcements.read(made.write(), NOW + 100)
    again.note({("one", "a")})
    assert Announcements.read(again.write(), NOW + 200).claims == {("one", "a")}


def test_what_is_announced_again_and_again_is_no_write_each_time():
    made = Announcements.read("", NOW)
    made.note({("one", "a")})
    for seconds in (1, 29):
        again = Announcements.read(made.write(), NOW + seconds)
        again.note({("one", "a")})
        assert again.write() == made.write()
    # Before any replica may forget it.
    later = Announcements.read(made.write(), NOW + 30)
    later.note({("one", "a")})
    later.forget({("one", "a")})
    assert Announcements.read(later.write(), NOW + 149).claims == {("one", "a")}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"one/a": "x"}',
        "null",
        '{"one/a": 1e99}',
        "[" * 10_000,
        '{"a": 1000000}',
        '{"/a": 1000000}',
        '{"one/": 1000000}',
        '{"one/A": 1000000}',
        '{"one/a/b": 1000000}',
        "{\"one/x'] || true || ['\": 1000000}",
    ],
)
def test_an_annotation_that_somebody_else_wrote_says_nothing(text):
    assert Announcements.read(text, NOW).claims == frozenset()


def test_there_is_room_for_a_thousand_and_one_namespace_does_not_take_all_of_it():
    made = Announcements.read("", NOW)
    made.note({("a-flood", f"a-{number}") for number in range(1500)})
    assert len(made.claims) == 400
    for namespace in ("b", "c", "d"):
        made.note({(namespace, f"a-{number}") for number in range(250)})
    assert len(made.claims) == 1000
    # What is there already is kept, however full it is.
    later = Announcements.read(made.write(), NOW + 100)
    later.note({("a-flood", "a-0"), ("e", "one-more")})
    assert Announcements.read(later.write(), NOW + 130).claims == {("a-flood", "a-0")}


def test_the_annotation_fits_an_object_however_long_names_are():
    made = Announcements.read("", NOW)
    made.note({(f"{number:063}", "k" * 253) for number in range(1000)})
    assert 500 < len(made.claims) < 1000
    assert len(made.write()) < 256 << 10
