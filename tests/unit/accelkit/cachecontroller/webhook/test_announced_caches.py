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


def test_a_cache_that_is_there_is_announced_no_more():
    made = Announcements.read("", NOW)
    made.note({("one", "a"), ("one", "b")})
    made.forget({("one", "a"), ("three", "c")})
    assert made.claims == {("one", "b")}


@pytest.mark.parametrize("text", ["{", "[]", '{"one/a": "x"}', "null"])
def test_an_annotation_that_is_not_ours_says_nothing(text):
    assert Announcements.read(text, NOW).claims == frozenset()


def test_there_is_room_for_a_thousand():
    made = Announcements.read("", NOW)
    made.note({("one", f"a-{number}") for number in range(1500)})
    assert len(made.claims) == 1000
