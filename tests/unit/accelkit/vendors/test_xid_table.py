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
def test_known_xid_has_vendor_action_and_unknown_xid_is_watched(number, action):
    assert find_xid(number).action == action


def test_harmful_xid_actions_are_cordon_reset_and_replace():
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
def test_invalid_xid_table_is_rejected(text):
    with pytest.raises(ProfileError, match="the table of XIDs is invalid"):
        parse_xids(text)
