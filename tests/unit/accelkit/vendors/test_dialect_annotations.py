from __future__ import annotations

import json

import msgspec
import pytest
from support.pods import build_container, build_pod

from accelkit.errors import AssignmentError, RequestError
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.pod import Pod
from accelkit.vendors.annotations import Granted
from accelkit.vendors.dialects import list_dialect_names, load_dialect
from accelkit.vendors.foreign_assignments import read_foreign_assignment
from accelkit.vendors.pod_reading import PodReader

CARDS = [Card(f"id-{number}", "v", "m", 16, index=number, minor=number) for number in range(3)]
NOW = 1662450043664667707


def read(pod, dialect):
    return PodReader([load_dialect(dialect)]).read(pod)


def granted(**containers):
    """A grant of shares as `c=("id-1", 4)`."""
    assignment = Assignment({name: (Share(card, amount),) for name, (card, amount) in containers.items()})
    return Granted(assignment, tuple(containers), {card.id: card for card in CARDS}, 1)


def codec(name):
    return load_dialect(name).annotations


def pod(resources, **annotations):
    """A pod whose containers ask for `resources` as {container: limits}."""
    containers = [build_container(limits, name) for name, limits in resources.items()]
    return msgspec.convert(build_pod("p", *containers, metadata={"annotations": annotations}, nodeName="n"), Pod)


def test_gcushare_writes_what_its_manual_shows():
    shares = granted(c=("id-1", 8))
    assert codec("gcushare").write(shares, NOW) == {
        "enflame.com/gcu-device-assign-time": str(NOW),
        "enflame.com/gcu-device-assigned": "false",
        "enflame.com/gcu-device-id": "1",
        "enflame.com/gcu-device-memory": "16",
        "enflame.com/gcu-device-memory-request": "8",
    }


def test_gcushare_is_settled_once_the_kubelet_has_allocated():
    written = codec("gcushare").write(granted(c=("id-1", 8)), NOW)
    changes = codec("gcushare").settle(written, granted(c=("id-2", 8)), NOW)
    assert changes == {"enflame.com/gcu-device-assigned": "true", "enflame.com/gcu-device-id": "2"}
    assert codec("gcushare").settle({**written, **changes}, granted(c=("id-2", 8)), NOW) == {}


def test_aliyun_writes_its_own_names_and_says_when_it_was_allocated():
    written = codec("aliyun").write(granted(a=("id-0", 4), b=("id-0", 2)), NOW)
    assert written == {
        "ALIYUN_COM_GPU_MEM_IDX": "0",
        "ALIYUN_COM_GPU_MEM_POD": "6",
        "ALIYUN_COM_GPU_MEM_DEV": "16",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": str(NOW),
    }
    changes = codec("aliyun").settle(written, granted(a=("id-0", 4), b=("id-0", 2)), NOW + 1)
    assert changes == {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true", "ALIYUN_COM_GPU_MEM_ASSIGN_TIME": str(NOW + 1)}
    assert codec("aliyun").settle({**written, **changes}, granted(a=("id-0", 4), b=("id-0", 2)), NOW + 2) == {}


def test_gas_names_the_cards_of_each_container():
    assignment = Assignment({"a": (Share("id-1", 1), Share("id-0", 1)), "c": (Share("id-2", 1),)})
    shares = Granted(assignment, ("a", "b", "c"), {card.id: card for card in CARDS}, 1)
    assert codec("gas").write(shares, NOW) == {"gas-ts": str(NOW), "gas-container-cards": "card0,card1||card2"}


def test_slices_are_written_container_by_container():
    assignment = Assignment({"a": (Share("id-1", 0, 333),), "b": (Share("id-1", 0, 166),)})
    shares = Granted(assignment, ("a", "b"), {card.id: card for card in CARDS}, 1)
    written = codec("gcushare-2025").write(shares, NOW)
    assert json.loads(written["enflame.com/assigned-containers"]) == {
        "a": {"allocated": False, "request": 2},
        "b": {"allocated": False, "request": 1},
    }
    assert (written["enflame.com/gcu-assigned-minor"], written["enflame.com/gcu-request-size"]) == ("1", "3")
    settled = codec("gcushare-2025").settle(written, shares, NOW)
    assert settled["enflame.com/gcu-assigned"] == "true"
    assert json.loads(settled["enflame.com/assigned-containers"])["a"]["allocated"] is True


@pytest.mark.parametrize("name", ["gcushare", "aliyun", "gcushare-2025"])
def test_whole_cards_and_cards_without_a_number_are_not_written_in_their_words(name):
    whole = Granted(Assignment({"c": (Share("id-0", 16, 1000, whole=True),)}), ("c",), {"id-0": CARDS[0]}, 1)
    assert codec(name).write(whole, NOW) == {}
    nameless = Granted(Assignment({"c": (Share("x", 4, 166),)}), ("c",), {"x": Card("x", "v", "m", 16)}, 1)
    with pytest.raises(AssignmentError, match="card x has no number"):
        codec(name).write(nameless, NOW)


@pytest.mark.parametrize("name", [name for name in list_dialect_names() if load_dialect(name).annotations])
def test_every_key_that_is_written_is_among_the_keys(name):
    shares = Granted(Assignment({"c": (Share("id-0", 4, 166),)}), ("c",), {"id-0": CARDS[0]}, 1)
    keys = set(codec(name).keys)
    assert {*codec(name).write(shares, NOW), *codec(name).settle({}, shares, NOW)} <= keys


TAKEN = [
    ("gcushare", {"enflame.com/gcu-memory": "8"}, {"enflame.com/gcu-device-id": "2"}, [("id-2", 8, 0)]),
    ("aliyun", {"aliyun.com/gpu-mem": "8"}, {"ALIYUN_COM_GPU_MEM_IDX": "0"}, [("id-0", 8, 0)]),
    ("gcushare-2025", {"enflame.com/shared-gcu": "3"}, {"enflame.com/gcu-assigned-minor": "1"}, [("id-1", 0, 500)]),
    (
        "gas",
        {"gpu.intel.com/i915": "2", "gpu.intel.com/memory.max": "8", "gpu.intel.com/millicores": "300"},
        {"gas-container-cards": "card0,card2"},
        [("id-0", 4, 150), ("id-2", 4, 150)],
    ),
]


@pytest.mark.parametrize(("name", "limits", "annotations", "expected"), TAKEN)
def test_pods_of_other_systems_are_taken_over_with_their_cards(name, limits, annotations, expected):
    found = read_foreign_assignment(read(pod({"c": limits}, **annotations), name), CARDS, 1)
    assert [(share.card, share.memory_bytes, share.compute) for share in found.containers["c"]] == expected
    assert read_foreign_assignment(read(pod({"c": limits}), name), CARDS, 1) is None


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"enflame.com/gcu-device-id": "7"}, "card 7, which its node does not have"),
        ({"enflame.com/gcu-device-id": "x"}, "is no number: 'x'"),
    ],
)
def test_what_does_not_fit_the_cards_is_a_reason(annotations, message):
    with pytest.raises(AssignmentError, match=message):
        read_foreign_assignment(read(pod({"c": {"enflame.com/gcu-memory": 4}}, **annotations), "gcushare"), CARDS, 1)


@pytest.mark.parametrize("text", ["gpu0", "card0|card1|card2", "card0,,x"])
def test_gas_annotations_that_cannot_be_are_refused(text):
    gas = pod({"c": {"gpu.intel.com/i915": 1}}, **{"gas-container-cards": text})
    with pytest.raises(AssignmentError, match="gas-container-cards"):
        read_foreign_assignment(read(gas, "gas"), CARDS, 1)


def gas(limits, **annotations):
    request = read(pod(limits, **annotations), "gas").read_request(2**30)
    return request.containers


def test_gas_splits_a_containers_amounts_over_its_cards():
    limits = {"gpu.intel.com/i915": "2", "gpu.intel.com/millicores": "2000", "gpu.intel.com/memory.max": "10G"}
    (container,) = gas({"c": limits})
    assert (container.cards, container.memory_bytes, container.compute) == (2, 5 * 10**9, 1000)


def test_gas_lists_bound_the_choice_of_cards():
    (container,) = gas({"c": {"gpu.intel.com/xe": 1}}, **{"gas-allow": "card3,card0", "gas-deny": "card1"})
    assert (container.allowed, container.denied) == ({0, 3}, {1})


def test_gas_puts_containers_on_the_same_card():
    one = {"gpu.intel.com/i915": 1}
    containers = gas({"a": one, "b": one, "c": one}, **{"gas-same-gpu": "c,a"})
    assert [container.same_card_as for container in containers] == ["", "", "a"]


@pytest.mark.parametrize(
    ("limits", "annotations", "message"),
    [
        ({"gpu.intel.com/i915": 1, "gpu.intel.com/xe": 1}, {}, "gpu.intel.com/i915 and gpu.intel.com/xe"),
        ({"gpu.intel.com/i915": 1, "gpu.intel.com/millicores": 1001}, {}, "more than 1 card can have"),
        ({"gpu.intel.com/i915": 1}, {"gas-allow": "gpu0"}, "gas-allow names gpu0"),
        ({"gpu.intel.com/i915": 1}, {"gas-same-gpu": "c"}, "two or more different containers"),
        ({"gpu.intel.com/i915": 2}, {"gas-same-gpu": "c,d"}, "does not ask for exactly one card"),
    ],
)
def test_gas_requests_that_cannot_be_met_are_refused(limits, annotations, message):
    with pytest.raises(RequestError, match=message):
        gas({"c": limits}, **annotations)


def test_slices_are_parts_of_a_cards_compute():
    request = read(pod({"c": {"enflame.com/shared-gcu": 6}}), "gcushare-2025").read_request(1)
    assert [(each.cards, each.memory_bytes, each.compute) for each in request.containers] == [(1, 0, 1000)]
    with pytest.raises(RequestError, match=r"asks for 7 enflame\.com/shared-gcu, a card has 6"):
        read(pod({"c": {"enflame.com/shared-gcu": 7}}), "gcushare-2025").read_request(1)


def test_a_card_is_found_by_the_drivers_number_or_else_by_its_place():
    limits, annotations = {"c": {"enflame.com/gcu-memory": 8}}, {"enflame.com/gcu-device-id": "0"}
    numbered = [Card("x", "v", "m", 16, minor=1), Card("y", "v", "m", 16, minor=0)]
    plain = [Card("x", "v", "m", 16), Card("y", "v", "m", 16)]
    for cards, expected in ((numbered, "y"), (plain, "x")):
        found = read_foreign_assignment(read(pod(limits, **annotations), "gcushare"), cards, 1)
        assert [share.card for share in found.containers["c"]] == [expected]


def test_an_init_container_of_another_systems_pod_is_on_the_card_of_its_first_container():
    taken = pod({"c": {"enflame.com/gcu-memory": 8}}, **{"enflame.com/gcu-device-id": "2"})
    init = msgspec.structs.replace(taken.spec.containers[0], name="i")
    taken = msgspec.structs.replace(taken, spec=msgspec.structs.replace(taken.spec, init_containers=[init]))
    found = read_foreign_assignment(read(taken, "gcushare"), CARDS, 1)
    assert {name: shares[0].card for name, shares in found.containers.items()} == {"i": "id-2", "c": "id-2"}


def test_gas_is_settled_once_its_cards_are_those_that_the_kubelet_gave():
    written = codec("gas").write(granted(c=("id-1", 1)), NOW)
    assert codec("gas").settle(written, granted(c=("id-1", 1)), NOW + 1) == {}
    assert codec("gas").settle(written, granted(c=("id-2", 1)), NOW + 1) == {"gas-container-cards": "card2"}
