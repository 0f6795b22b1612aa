import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelkit.errors import AssignmentError, InventoryError
from accelkit.model.assignment import Assignment, Share, decode_assignment, encode_assignment
from accelkit.model.card import Card, Health, Link
from accelkit.model.inventory import MAX_INVENTORY_BYTES, Inventory, decode_inventory, encode_inventory
from accelkit.model.units import MAX_AMOUNT

AMOUNTS = st.integers(0, MAX_AMOUNT)
IDS = st.text(alphabet="abcDEF012-:.", min_size=1, max_size=48).filter(lambda text: "::" not in text)
CARDS = st.builds(
    Card,
    IDS,
    st.text(max_size=5),
    st.text(max_size=5),
    st.none() | AMOUNTS,
    AMOUNTS,
    st.none() | st.integers(0, 7),
    st.text(max_size=5),
    st.lists(st.builds(Link, IDS, st.text(max_size=5)), max_size=2).map(tuple),
    st.sampled_from(Health),
)
INVENTORIES = st.builds(
    Inventory, st.integers(1, MAX_AMOUNT), st.lists(CARDS, max_size=4, unique_by=lambda card: card.id).map(tuple)
)
SHARES = st.builds(Share, st.text(max_size=5), AMOUNTS, st.integers(0, 1000), st.booleans())
ASSIGNMENTS = st.builds(
    Assignment, st.dictionaries(st.text(max_size=5), st.lists(SHARES, max_size=3).map(tuple), max_size=3)
)
NESTED = "[" * 60_000


def inventory(**changes):
    card = {"id": "a", "vendor": "v", "model": "m", "memory_bytes": 16, **changes.pop("card", {})}
    return json.dumps({"version": 1, "unit_bytes": 1, "cards": [card], **changes})


@given(INVENTORIES)
def test_decoded_inventory_equals_encoded_inventory(value):
    assert decode_inventory(encode_inventory(value)) == value


@given(ASSIGNMENTS)
def test_decoded_assignment_equals_encoded_assignment(value):
    assert decode_assignment(encode_assignment(value)) == value


@pytest.mark.parametrize("version", [0, 2, -1])
def test_inventory_of_unsupported_version_is_refused(version):
    with pytest.raises(InventoryError, match="upgrade the extender") as raised:
        decode_inventory(inventory(version=version))
    assert str(version) in raised.value.message


def test_fields_of_a_later_release_are_skipped():
    assert decode_inventory(inventory(colour="red", card={"shape": "round"})).cards[0].id == "a"


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "[]", "{}", "nonsense", '{"version": 1}', '{"version": "1", "unit_bytes": 1, "cards": []}'),
        f'{{"version": 1, "later": {NESTED}',
        inventory(unit_bytes=0),
        inventory(card={"memory_bytes": 0.5}),
        inventory(card={"health": "fine"}),
        inventory(uncounted=[{"card": "a", "memory_bytes": -1}]),
        inventory(uncounted=[{"card": "a", "memory_bytes": 2**63}]),
        inventory(uncounted=[{"card": "a", "memory_bytes": 1, "compute": -1}]),
        inventory(uncounted=[{"card": "a", "memory_bytes": 1, "compute": 2**63}]),
        inventory(cards=[{"id": "a", "vendor": "", "model": "", "memory_bytes": 1}] * 2),
    ],
    ids=lambda text: text[:40],
)
def test_invalid_inventory_is_refused(text):
    with pytest.raises(InventoryError, match="inventory"):
        decode_inventory(text)


@pytest.mark.parametrize("letter", ["m", "é"])
def test_inventory_over_64_kib_is_refused_on_encoding_and_decoding(letter):
    model = letter * (MAX_INVENTORY_BYTES // len(letter.encode()))
    cards = (Card("a", "v", model, 1),)
    with pytest.raises(InventoryError, match="more than the limit"):
        encode_inventory(Inventory(1, cards))
    with pytest.raises(InventoryError, match="more than the limit"):
        decode_inventory(json.dumps({"version": 1, "unit_bytes": 1, "model": model}, ensure_ascii=False))


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "{}", '{"version": 1}', '{"version": 2, "containers": {}}'),
        f'{{"version": 1, "later": {NESTED}',
        '{"version": 1, "containers": {"c": [{"card": "a"}]}}',
    ],
    ids=lambda text: text[:60],
)
def test_invalid_assignment_is_refused(text):
    with pytest.raises(AssignmentError, match="assignment"):
        decode_assignment(text)
