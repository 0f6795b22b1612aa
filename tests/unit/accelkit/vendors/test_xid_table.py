import pytest

from accelkit.errors import ProfileError
from accelkit.vendors.xids import XidAction, find_xid, parse_xids


@pytest.mark.parametrize(
    ("number", "action"),
    [
        (13, "ignore"),
        (45, "ignore"),
        (94, "watch"),
        (54, "cordon"),
        (48, "drain-and-reset"),
        (79, "drain-and-reset"),
        (109, "drain-and-reset"),
        (64, "replace"),
        (4711, "watch"),
    ],
)
def test_an_xid_asks_for_what_the_vendor_says_and_an_unknown_one_is_watched(number, action):
    assert find_xid(number).action == action


def test_what_takes_a_card_out_of_placement_is_more_than_to_watch_it():
    assert [action.value for action in XidAction if action.harms] == ["cordon", "drain-and-reset", "replace"]


@pytest.mark.parametrize(
    "text",
    [
        "- {numbers: [1], action: reset, meaning: x}",
        "- {numbers: [1], action: watch}",
        "- {numbers: [one], action: watch, meaning: x}",
        "- {numbers: [1, 1], action: watch, meaning: x}",
        "- {numbers: [1], action: watch, meaning: x}\n- {numbers: [1], action: ignore, meaning: x}",
    ],
)
def test_a_wrong_table_is_refused(text):
    with pytest.raises(ProfileError, match="the table of XIDs is invalid"):
        parse_xids(text)
