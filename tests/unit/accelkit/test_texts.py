import pytest

from accelkit.texts import clean, count_cards, shorten


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größer ²", "größer ²"),
        ("\x1b[2J\a", "\ufffd[2J\ufffd"),
        ("a\nNothing differs.\r\t", "a\ufffdNothing differs.\ufffd\ufffd"),
        ("\u202egnp.exe\u2028\x9b", "\ufffdgnp.exe\ufffd\ufffd"),
    ],
)
def test_what_steers_a_terminal_is_replaced(text, shown):
    assert clean(text) == shown


def test_what_is_to_be_kept_is():
    assert clean("a\n\x1b", keep="\n") == "a\n\ufffd"


def test_long_texts_are_cut_and_say_so():
    assert shorten("x" * 200) == "x" * 200
    assert shorten("x" * 201) == "x" * 199 + "…"
    assert shorten("ab\x1b", 2) == "a…"


@pytest.mark.parametrize(("number", "told"), [(0, "0 cards"), (1, "1 card"), (2, "2 cards")])
def test_one_card_is_no_cards(number, told):
    assert count_cards(number) == told
