from hypothesis import given
from hypothesis import strategies as st

from accelkit.model.amounts import add_amounts, build_amounts, find_lack, take_off, take_up_to

AMOUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 9)).map(build_amounts)


def test_amounts_with_same_content_are_equal():
    assert build_amounts({"b": 2, "a": 1}) == build_amounts({"a": 1, "b": 2}) == (("a", 1), ("b", 2))


@given(AMOUNTS, AMOUNTS)
def test_adding_and_subtracting_same_amounts_restores_original(one, other):
    assert add_amounts(add_amounts(one, other), other, -1) == one
    assert add_amounts(one, ()) == one


def test_take_off_keeps_resources_of_card_and_may_be_negative():
    assert take_off((("a", 4), ("b", 1)), (("a", 6), ("z", 1))) == (("a", -2), ("b", 1))


def test_take_up_to_returns_at_most_available_amounts():
    assert take_up_to((("a", 4), ("b", 1)), (("a", 3), ("b", 2), ("c", 1))) == (("a", 3), ("b", 1))


def test_find_lack_returns_the_name_of_the_resource():
    assert find_lack((("a", 4), ("b", 1)), (("a", 4), ("b", 1))) == ""
    assert find_lack((("a", 4), ("b", 1)), (("a", 4), ("b", 2))) == "b"
    # Unknown is not zero: of what nobody told, a card has none to give.
    assert find_lack((), (("a", 0),)) == "a"
    assert find_lack((), (("a", 1),), unlimited="a") == ""
    assert find_lack((("a", 0),), (("a", 1),), unlimited="a") == "a"
