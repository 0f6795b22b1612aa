"""In which unit of memory a pod was given its devices."""

import pytest

from accelkit.errors import InventoryError
from accelkit.model.card import Card
from accelkit.model.inventory import (
    MAX_FORMER_UNITS,
    FormerUnit,
    Inventory,
    decode_inventory,
    encode_inventory,
    find_unit,
)

# 2026-01-01T00:00:00Z and a minute later.
FIRST, SECOND = FormerUnit(8, 1_767_225_600), FormerUnit(4, 1_767_225_660)


@pytest.mark.parametrize(
    ("started_at", "unit_bytes"),
    [
        ("2025-12-31T23:59:59Z", 8),
        ("2026-01-01T00:00:00Z", 8),
        ("2026-01-01T01:00:00+01:00", 8),
        ("2026-01-01T00:00:01Z", 4),
        ("2026-01-01T00:01:00Z", 4),
        ("2026-01-01T00:01:01Z", 1),
        (None, 1),
        ("", 1),
        ("now", 1),
        ("0001-01-01T00:00:00+23:59", 8),
    ],
)
def test_find_unit_returns_earliest_unit_valid_at_start_or_present_unit(started_at, unit_bytes):
    assert find_unit(1, (FIRST, SECOND), started_at) == unit_bytes
    assert find_unit(1, (), started_at) == 1


def test_former_units_are_encoded_with_inventory():
    inventory = Inventory(1, (Card("a", "v", "m", 16),), former_units=(FIRST, SECOND))
    assert decode_inventory(encode_inventory(inventory)) == inventory


@pytest.mark.parametrize(
    "history",
    [
        (SECOND, FIRST),
        (FormerUnit(0, 1),),
        (FormerUnit(-8, 1),),
        (FormerUnit(2**63, 1),),
        (FIRST,) * (MAX_FORMER_UNITS + 1),
    ],
)
def test_inventory_with_invalid_former_units_is_refused(history):
    with pytest.raises(InventoryError, match=r"invalid list of former units|former units, more than the limit of 8"):
        encode_inventory(Inventory(1, (), former_units=history))
