from accelkit.ledger.ledger import Ledger
from accelkit.ledger.packed_names import PackedNames
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory

GIB = 2**30


def put(ledger, *names):
    for name in names:
        ledger.put_node(name, Inventory(GIB, (Card(f"{name}-0", "simulated", "sim", 8 * GIB),)))


def test_names_and_rows_match_ledger_after_node_changes():
    ledger = Ledger(unit_bytes=GIB)
    packed = PackedNames(ledger)
    assert packed.find_rows(["a"]).tolist() == [-1]
    steps = [
        lambda: put(ledger, "a"),
        lambda: put(ledger, "b", "c", "d"),
        lambda: put(ledger, "e"),
        lambda: ledger.drop_node("b"),
        lambda: put(ledger, "a"),
        lambda: ledger.drop_node("c"),
        lambda: put(ledger, "f", "b"),
        lambda: put(ledger, *(f"n{number}" for number in range(100))),
        lambda: ledger.drop_node("n7"),
        lambda: put(ledger, "g", "h"),
    ]
    asked = ["a", "b", "c", "d", "e", "f", "g", "h", "n0", "n7", "n99", "nobody"]
    for step in steps:
        step()
        assert packed.find_rows(asked).tolist() == [ledger.find_row(name) for name in asked]
        assert packed.list_names() == ledger.list_node_names()
        known = [name for name in asked if ledger.find_row(name) >= 0]
        assert packed.find_rows(known).tolist() == [ledger.find_row(name) for name in known]


def test_list_names_returns_copies_of_strings():
    ledger = Ledger(unit_bytes=GIB)
    put(ledger, "node")
    (copy,) = PackedNames(ledger).list_names()
    assert copy == "node"
    assert copy is not ledger.list_node_names()[0]
