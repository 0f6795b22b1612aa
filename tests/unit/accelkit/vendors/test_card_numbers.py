"""What other systems write on their pods: read back, left alone, and refused."""

import json

import msgspec
import pytest

from accelkit.errors import AssignmentError
from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.card import Card
from accelkit.model.pod import Pod
from accelkit.vendors.annotations import Granted
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.foreign_assignments import read_foreign_assignment
from accelkit.vendors.pod_reading import PodReader

CARDS = {f"id-{number}": Card(f"id-{number}", "v", "m", 64, index=9, minor=number) for number in range(3)}
NOW = 1662450043664667707
GCU, GAS, SLICES = "enflame.com/gcu-device-id", "gas-container-cards", "enflame.com/gcu-assigned-minor"


def codec(name):
    return load_dialect(name).annotations


def grant(containers, unit=1):
    return Granted(Assignment(containers), tuple(name for name in containers if name != MOVING), CARDS, unit)


@pytest.mark.parametrize("name", ["gcushare", "aliyun", "gas", "gcushare-2025"])
def test_codec_keys_are_keys_of_written_annotations(name):
    shares = grant({"c": (Share("id-0", 4, 166),)})
    assert set(codec(name).keys) == {*codec(name).write(shares, NOW), *codec(name).settle({}, shares, NOW)} - {""}


def test_gcushare_2025_settle_changes_only_allocation_state():
    shares = grant({"a": (Share("id-1", 0, 333),), "b": (Share("id-1", 0, 166),)})
    written = codec("gcushare-2025").write(shares, NOW)
    containers = {"a": {"allocated": False, "request": 2}, "b": {"allocated": False, "request": 1}}
    assert written == {
        SLICES: "1",
        "enflame.com/gcu-request-size": "3",
        "enflame.com/gcu-assigned": "false",
        "enflame.com/gcu-assigned-time": str(NOW),
        "enflame.com/assigned-containers": json.dumps(containers).replace(" ", ""),
    }
    changes = codec("gcushare-2025").settle(written, shares, NOW + 1)
    settled = {name: {**each, "allocated": True} for name, each in containers.items()}
    assert changes.keys() == {"enflame.com/gcu-assigned", "enflame.com/assigned-containers"}
    assert changes["enflame.com/gcu-assigned"] == "true"
    assert json.loads(changes["enflame.com/assigned-containers"]) == settled
    assert codec("gcushare-2025").settle({**written, **changes}, shares, NOW + 2) == {}


@pytest.mark.parametrize(("compute", "slices"), [(0, 0), (83, 0), (84, 1), (166, 1), (500, 3), (1000, 6)])
def test_compute_is_rounded_to_nearest_number_of_slices(compute, slices):
    assert codec("gcushare-2025").count_slices(compute) == slices


@pytest.mark.parametrize("name", ["gcushare", "aliyun", "gcushare-2025"])
@pytest.mark.parametrize(
    "containers",
    [
        {},
        {"c": (Share("id-0", 64, 1000, whole=True),)},
        {"a": (Share("id-0", 4),), "b": (Share("id-1", 4),)},
        {MOVING: (Share("id-0", 4),)},
    ],
    ids=["nothing", "whole", "two cards", "moving"],
)
def test_pod_without_one_shared_card_gets_no_annotations(name, containers):
    assert codec(name).write(grant(containers), NOW) == {}
    assert codec(name).settle({}, grant(containers), NOW) == {}


@pytest.mark.parametrize("name", ["gcushare", "aliyun"])
def test_written_amounts_are_in_units_without_moving_or_whole_shares(name):
    shares = {
        "a": (Share("id-2", 20),),
        "b": (Share("id-2", 14),),
        "w": (Share("id-1", 64, 1000, whole=True),),
        MOVING: (Share("id-0", 8),),
    }
    written = codec(name).write(grant(shares, unit=8), NOW)
    found = codec(name)
    assert [written[key] for key in (found.card, found.request, found.capacity)] == ["2", "4", "8"]


def test_aliyun_settle_preserves_allocation_time():
    shares = grant({"c": (Share("id-0", 4),)})
    present = {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true", "ALIYUN_COM_GPU_MEM_ASSIGN_TIME": "7"}
    changes = codec("aliyun").settle(present, shares, NOW)
    assert changes == {
        "ALIYUN_COM_GPU_MEM_IDX": "0",
        "ALIYUN_COM_GPU_MEM_POD": "4",
        "ALIYUN_COM_GPU_MEM_DEV": "64",
    }


def test_gas_writes_empty_entry_for_container_without_cards():
    shares = Granted(Assignment({"b": (Share("id-2", 1), Share("id-0", 1))}), ("a", "b"), CARDS, 1)
    assert codec("gas").settle({}, shares, NOW) == {GAS: "|card0,card2"}


@pytest.mark.parametrize("name", ["gas", "gcushare", "aliyun", "gcushare-2025"])
@pytest.mark.parametrize("cards", [{}, {"x": Card("x", "v", "m", 16)}], ids=["no card", "no number"])
def test_card_without_number_cannot_be_written(name, cards):
    shares = Granted(Assignment({"c": (Share("x", 4, 166),)}), ("c",), cards, 1)
    with pytest.raises(AssignmentError, match="card x has no number, which the annotations of other systems require"):
        codec(name).write(shares, NOW)


@pytest.mark.parametrize(
    ("name", "present", "expected"),
    [
        ("gcushare", {GCU: "0"}, {"a": (0,), "b": (0,)}),
        ("gcushare", {GCU: "12"}, {"a": (12,), "b": (12,)}),
        ("gcushare", {GCU: "-1"}, None),
        ("gcushare", {GCU: ""}, None),
        ("gcushare", {}, None),
        ("gcushare-2025", {SLICES: "1"}, {"a": (1,), "b": (1,)}),
        ("gcushare-2025", {SLICES: ""}, None),
        ("gcushare-2025", {}, None),
        ("gas", {GAS: "card1,card10|card0"}, {"a": [1, 10], "b": [0]}),
        ("gas", {GAS: "|card0, card2"}, {"b": [0, 2]}),
        ("gas", {GAS: "card3"}, {"a": [3]}),
        ("gas", {GAS: "card3,,|"}, {"a": [3]}),
        ("gas", {GAS: "|"}, {}),
        ("gas", {GAS: ""}, None),
        ("gas", {}, None),
    ],
)
def test_card_numbers_of_each_container_are_read_from_annotation(name, present, expected):
    assert codec(name).read_card_numbers(present, ["a", "b"]) == expected


@pytest.mark.parametrize(
    ("name", "present", "sentence"),
    [
        ("gcushare", {GCU: "-2"}, f"annotation {GCU} is not a number: '-2'"),
        ("gcushare-2025", {SLICES: "x"}, f"annotation {SLICES} is not a number: 'x'"),
        ("gas", {GAS: "card0|card1|card2"}, f"annotation {GAS} lists 3 containers, but the pod has 2"),
        ("gas", {GAS: "card0|gpu1"}, f"annotation {GAS} is 'card0|gpu1'; write it as card0,card1|card2"),
        ("gas", {GAS: "card0,card"}, f"annotation {GAS} is 'card0,card'; write it as card0,card1|card2"),
    ],
)
def test_invalid_card_annotation_is_rejected_with_its_name(name, present, sentence):
    with pytest.raises(AssignmentError) as raised:
        codec(name).read_card_numbers(present, ["a", "b"])
    assert str(raised.value) == sentence


def take_over(name, limits, annotations):
    body = {"metadata": {"annotations": annotations}, "spec": {"containers": []}}
    body["spec"]["containers"] = [{"name": "c", "resources": {"limits": limits}}]
    pod = PodReader([load_dialect(name)]).read(msgspec.convert(body, Pod))
    return read_foreign_assignment(pod, list(CARDS.values()), 8)


def test_whole_card_of_foreign_assignment_is_adopted_as_whole_card():
    assert take_over("gcushare", {"enflame.com/gcu-count": 1}, {GCU: "2"}) == Assignment(
        {"c": (Share("id-2", 64, 1000, whole=True),)}
    )


def test_foreign_memory_assignment_is_adopted_in_unit_of_node():
    assert take_over("gcushare", {"enflame.com/gcu-memory": 3}, {GCU: "2"}) == Assignment({"c": (Share("id-2", 24),)})


def test_pod_without_request_or_with_native_request_is_not_adopted():
    assert take_over("gcushare", {"enflame.com/gcu-memory": 0}, {GCU: "2"}) is None
    assert take_over("native", {"accelkit.io/memory": 3}, {GCU: "2"}) is None


@pytest.mark.parametrize(
    ("name", "limits", "annotations", "sentence"),
    [
        ("gas", {"gpu.intel.com/i915": 2}, {GAS: "card0"}, "container c was assigned 1 card but requests 2"),
        (
            "gas",
            {"gpu.intel.com/i915": 1},
            {GAS: "|"},
            "annotation gas-container-cards lists 2 containers, but the pod has 1",
        ),
        ("gas", {"gpu.intel.com/i915": 1}, {GAS: ","}, "container c was assigned 0 cards but requests 1"),
        ("gcushare", {"enflame.com/gcu-memory": "x"}, {GCU: "0"}, "'x' is not a Kubernetes quantity"),
        (
            "gcushare",
            {"enflame.com/gcu-memory": 1},
            {GCU: "3"},
            "was assigned card 3, which does not exist on its node",
        ),
    ],
)
def test_foreign_assignment_that_contradicts_request_is_rejected(name, limits, annotations, sentence):
    with pytest.raises(AssignmentError) as raised:
        take_over(name, limits, annotations)
    assert sentence in str(raised.value)
