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
def test_clean_replaces_control_characters(text, shown):
    assert clean(text) == shown


def test_clean_preserves_characters_of_keep_argument():
    assert clean("a\n\x1b", keep="\n") == "a\n\ufffd"


def test_shorten_truncates_long_texts_with_ellipsis():
    assert shorten("x" * 200) == "x" * 200
    assert shorten("x" * 201) == "x" * 199 + "…"
    assert shorten("ab\x1b", 2) == "a…"


@pytest.mark.parametrize(("number", "told"), [(0, "0 cards"), (1, "1 card"), (2, "2 cards")])
def test_count_cards_uses_singular_for_one_card(number, told):
    assert count_cards(number) == told
