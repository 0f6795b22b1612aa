"""What is written for other processes and read from them: names, letters, and what is left unsaid."""

import json

import msgspec
import pytest

from accelkit.errors import AssignmentError, InventoryError
from accelkit.model.assignment import MOVING, Assignment, Share, decode_assignment, encode_assignment, is_equal
from accelkit.model.card import MAX_CARD_ID, Card, Health, Link
from accelkit.model.inventory import Inventory, decode_inventory, encode_inventory
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, FREED_AT_ANNOTATION, INVENTORY_ANNOTATION
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import ConfigMap, Container, Node, Pod, PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.model.topology import FABRICS, Nearness
from accelkit.model.units import MAX_AMOUNT, WHOLE_COMPUTE

PLAIN = {"id": "a", "vendor": "v", "model": "m", "memory_bytes": 16}


def test_annotation_keys_are_stable():
    assert (INVENTORY_ANNOTATION, FREED_AT_ANNOTATION) == ("accelkit.io/inventory", "accelkit.io/freed-at")
    assert (ASSIGNMENT_ANNOTATION, MOVING) == ("accelkit.io/assignment", "(moving)")


def test_wire_values_of_enums_are_stable():
    assert [each.value for each in Health] == ["healthy", "unhealthy", "unknown"]
    assert [each.value for each in Kind] == ["init", "sidecar", "app"]
    assert {each.name: each.value for each in Nearness} == {
        "SAME": "X",
        "FABRIC_DIRECT": "D",
        "FABRIC_SWITCHED": "W",
        "PCI_SWITCH": "S",
        "PCI_MULTI": "M",
        "HOST_BRIDGE": "H",
        "NUMA": "N",
        "CROSS_NUMA": "C",
        "UNKNOWN": "?",
    }


def test_fabrics_map_to_expected_nearness():
    direct, switched = Nearness.FABRIC_DIRECT, Nearness.FABRIC_SWITCHED
    assert dict(FABRICS) == {
        "NVLink": direct,
        "NVSwitch": switched,
        "XGMI": direct,
        "XGMI hive": switched,
        "Xe-link": direct,
    }


def test_omitted_card_fields_have_defaults():
    card = Card(
        id="a",
        vendor="v",
        model="m",
        memory_bytes=16,
        reserved_bytes=0,
        numa=None,
        pci_root="",
        links=(),
        health=Health.HEALTHY,
        health_reason="",
        index=None,
        minor=None,
        bdf="",
        memory_source="",
        estimated=False,
        cordoned=False,
        enforcement="",
        driver_version="",
    )
    assert msgspec.convert(PLAIN, Card) == card
    assert msgspec.to_builtins(card) == PLAIN


@pytest.mark.parametrize(
    ("health", "cordoned", "placeable"),
    [
        (Health.HEALTHY, False, True),
        (Health.UNKNOWN, False, True),
        (Health.UNHEALTHY, False, False),
        (Health.HEALTHY, True, False),
        (Health.UNHEALTHY, True, False),
    ],
)
def test_card_is_placeable_unless_unhealthy_or_cordoned(health, cordoned, placeable):
    assert Card("a", "v", "m", 1, health=health, cordoned=cordoned).placeable is placeable


@pytest.mark.parametrize(("index", "minor", "number"), [(1, 2, 2), (1, None, 1), (1, 0, 0), (None, None, None)])
def test_card_number_is_driver_minor_or_else_index(index, minor, number):
    assert Card("a", "v", "m", 1, index=index, minor=minor).number == number


@pytest.mark.parametrize(("memory", "reserved", "capacity"), [(16, 20, 0), (16, 15, 1), (16, 0, 16), (None, 0, 0)])
def test_capacity_excludes_reserved_memory(memory, reserved, capacity):
    assert Card("a", "v", "m", memory, reserved).capacity_bytes == capacity


def test_encoded_inventory_has_version_and_omits_default_card_fields():
    text = encode_inventory(Inventory(2**30, (Card("a", "v", "m", 16, links=(Link("b", "NVLink"),)),)))
    assert json.loads(text) == {
        "unit_bytes": 2**30,
        "cards": [{**PLAIN, "links": [{"to": "b", "kind": "NVLink"}]}],
        "version": 1,
        "next_unit_bytes": 0,
        "problem": "",
        "topology": [],
        "uncounted": [],
        "former_units": [],
        "library_problems": [],
        "cdi": [],
    }


def test_inventory_with_only_unit_and_cards_is_decoded():
    found = decode_inventory('{"version": 1, "unit_bytes": 8, "cards": []}')
    assert found == Inventory(8, (), version=1, next_unit_bytes=0, problem="", topology=())
    assert found.configured_unit_bytes == 8
    assert Inventory(8, (), next_unit_bytes=4).configured_unit_bytes == 4


@pytest.mark.parametrize("amount", [1, MAX_AMOUNT])
def test_inventory_units_up_to_largest_amount_are_accepted(amount):
    inventory = Inventory(amount, (), next_unit_bytes=amount)
    assert decode_inventory(encode_inventory(inventory)) == inventory


@pytest.mark.parametrize("amount", [-1, MAX_AMOUNT + 1])
@pytest.mark.parametrize("field", ["unit_bytes", "next_unit_bytes", "reserved_bytes", "memory_bytes"])
def test_inventory_amounts_out_of_range_are_refused(field, amount):
    changes = {field: amount}
    card = Card("a", "v", "m", **{"memory_bytes": 1, **(changes if field in Card.__struct_fields__ else {})})
    inventory = Inventory(**{"unit_bytes": 1, "cards": (card,), **({} if hasattr(card, field) else changes)})
    with pytest.raises(InventoryError, match=r"invalid (next )?(unit|amount)"):
        encode_inventory(inventory)


@pytest.mark.parametrize("amount", [0, MAX_AMOUNT, None])
def test_zero_largest_and_unknown_card_memory_are_accepted(amount):
    inventory = Inventory(1, (Card("a", "v", "m", amount, amount or 0),))
    assert decode_inventory(encode_inventory(inventory)) == inventory


def test_invalid_or_too_long_card_id_is_refused():
    assert MAX_CARD_ID == 48
    longest = Inventory(1, (Card("x" * 48, "v", "m", 1),))
    assert decode_inventory(encode_inventory(longest)) == longest
    for wrong in ("x" * 49, "", "a::b"):
        with pytest.raises(InventoryError, match="invalid card ID"):
            encode_inventory(Inventory(1, (Card(wrong, "v", "m", 1),)))


LONG = "\N{GRINNING FACE}" * 15_000


@pytest.mark.parametrize(
    "inventory",
    [
        Inventory(1, (Card(LONG, "v", "m", 1),)),
        Inventory(1, (), uncounted=(Share(LONG, -1),)),
    ],
)
def test_error_for_invalid_inventory_is_short(inventory):
    with pytest.raises(InventoryError) as caught:
        decode_inventory(msgspec.json.encode(inventory).decode())
    assert len(caught.value.message) < 300


def test_inventory_is_limited_to_64_kib():
    text = '{"version": 1, "unit_bytes": 1, "cards": []}'
    assert decode_inventory(text.ljust(65536)).cards == ()
    with pytest.raises(InventoryError, match="inventory has 65537 bytes, more than the limit of 65536"):
        decode_inventory(text.ljust(65537))


def test_duplicate_card_is_refused():
    cards = tuple(Card(name, "v", "m", 1) for name in "abc")
    assert decode_inventory(encode_inventory(Inventory(1, cards))).cards == cards
    with pytest.raises(InventoryError, match="contains card b twice"):
        encode_inventory(Inventory(1, (*cards, cards[1])))


def test_encoded_assignment_has_version_and_omits_default_fields():
    shares = (Share("a", 4), Share("b", 16, 1000, whole=True))
    assert json.loads(encode_assignment(Assignment({"c": shares}, broken=("sentence",)))) == {
        "containers": {
            "c": [
                {"card": "a", "memory_bytes": 4},
                {"card": "b", "memory_bytes": 16, "compute": 1000, "whole": True},
            ]
        },
        "version": 1,
        "broken": ["sentence"],
    }
    assert json.loads(encode_assignment(Assignment({}))) == {"containers": {}, "version": 1}


@pytest.mark.parametrize(("memory", "compute"), [(0, 0), (MAX_AMOUNT, WHOLE_COMPUTE)])
def test_smallest_and_largest_share_are_accepted(memory, compute):
    assignment = Assignment({"c": (Share("a", memory, compute),)})
    assert decode_assignment(encode_assignment(assignment)) == assignment


@pytest.mark.parametrize(("memory", "compute"), [(-1, 0), (MAX_AMOUNT + 1, 0), (0, -1), (0, 1001)])
def test_share_out_of_range_is_refused_with_its_container(memory, compute):
    with pytest.raises(AssignmentError, match="assignment of container c has invalid amounts"):
        decode_assignment(encode_assignment(Assignment({"c": (Share("a", memory, compute),)})))


def test_container_request_has_defaults():
    request = ContainerRequest("c", Kind.APP, 1)
    assert request == ContainerRequest(
        container="c",
        kind=Kind.APP,
        cards=1,
        memory_bytes=0,
        compute=0,
        whole=False,
        model="",
        same_card_as="",
        link="",
        numa="",
        policy="",
        allowed=frozenset(),
        denied=frozenset(),
    )
    assert PodRequest((request,)).order == [("c", Kind.APP)]


def test_decoded_objects_without_fields_have_defaults():
    for kind in (Pod, Node, ConfigMap):
        found = msgspec.convert({"metadata": {}}, kind)
        assert found.metadata == ObjectMeta(name="", namespace="", uid="", resource_version="", labels=None)
    pod = msgspec.convert({"metadata": {}}, Pod)
    assert (pod.spec.node_name, pod.spec.containers, pod.spec.init_containers) == ("", [], None)
    assert (pod.status.phase, pod.status.start_time, pod.ref) == ("", None, PodRef("", "", ""))
    assert msgspec.convert({"name": "c"}, Container).resources.limits is None


@pytest.mark.parametrize("kind", [Pod, Node])
def test_find_annotation_returns_value_or_none(kind):
    assert kind(ObjectMeta()).find_annotation("a") is None
    assert kind(ObjectMeta(annotations={"a": "1"})).find_annotation("a") == "1"
    assert kind(ObjectMeta(annotations={"a": "1"})).find_annotation("b") is None


@pytest.mark.parametrize(
    ("phase", "terminal"), [("Succeeded", True), ("Failed", True), ("Running", False), ("Pending", False), ("", False)]
)
def test_succeeded_or_failed_pod_is_terminal(phase, terminal):
    assert msgspec.convert({"metadata": {}, "status": {"phase": phase}}, Pod).terminal is terminal


def test_pod_reference_is_formatted_as_namespace_and_name():
    assert str(PodRef("d", "p", "u")) == "d/p"


def test_is_equal_ignores_moving_shares_and_order():
    one = Assignment({"c": (Share("a", 1), Share("b", 1)), MOVING: (Share("c", 1),)})
    assert is_equal(one, Assignment({"c": (Share("b", 1), Share("a", 1)), "d": ()}))
    assert is_equal(Assignment({"c": (Share("a", 1, whole=True),)}), Assignment({"c": (Share("a", 2, whole=True),)}))
    assert not is_equal(one, Assignment({"c": (Share("a", 2),)}))
