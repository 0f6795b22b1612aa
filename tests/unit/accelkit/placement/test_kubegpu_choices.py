"""The cards that KubeGPU's own examples end on, asked for in its words and chosen here.

Machines and requests are those of its tests of trees and of its group scheduler. Where that takes the last of several
equal groups, the first is taken here; where it gives an init container another card than its kubelet would, ours is the
kubelet's.
"""

import json

import msgspec
import pytest
from machines import connect, draw_rows, draw_tree, make_cards

from accelkit.ledger.holding import NodeEntry
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.link_scores import LinkScores
from accelkit.model.inventory import Inventory
from accelkit.model.pod import Pod, PodRef
from accelkit.placement.card_state import build_empty_states
from accelkit.placement.fit import place
from accelkit.placement.misfit import Misfit, MisfitError
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.pod_reading import PodReader

READER = PodReader(load_dialects(["kubegpu", "native"]))

# Eight cards: two sockets of two switches with two cards each, and one whose second socket has one switch with four.
EVEN, UNEVEN = draw_tree([2, 2], [2, 2]), draw_tree([2, 2], [4])
# Five cards without groups, and in groups of two, one and two.
MEMORY = [100_000, 256_000, 257_000, 192_000, 178_000]
ALONE = draw_rows(5, lambda _a, _b: "C")
GROUPS = draw_tree([2], [1], [2])


def ask(limits, requests=None, init=None):
    """A pod whose containers have such limits, and such requests in the annotation."""

    def containers(names):
        return [{"name": name, "resources": {"limits": {"nvidia.com/gpu": str(limits[name])}}} for name in names]

    info = {
        kind: {
            name: {"requests": {f"resource/group/{resource}": value for resource, value in asked.items()}}
            for name, asked in found.items()
        }
        for kind, found in (("runningcontainer", requests or {}), ("initcontainer", init or {}))
    }
    spec = {
        "containers": containers([name for name in limits if name.startswith("Run")]),
        "initContainers": containers([name for name in limits if name.startswith("Init")]),
    }
    metadata = {"annotations": {"KubeDevice/DeviceInfo": json.dumps(info)}}
    request = READER.read(msgspec.convert({"metadata": metadata, "spec": spec}, Pod)).read_request(2**30)
    assert request is not None
    return request


def card(path, memory=0):
    return {f"{path}/cards": 1} | ({f"{path}/memory": memory} if memory else {})


def choose(rows, request, memory=()):
    """The cards of each container by their numbers, as KubeGPU's examples name them: dev0, dev1…."""
    states = build_empty_states(make_cards(len(rows), memory))
    placed = place(states, request, Policy.BINPACK, links=connect(rows))
    assert not isinstance(placed, Misfit), placed
    return {name: sorted("abcdefgh".index(s.card) for s in shares) for name, shares in placed.containers.items()}


def fill(**machines):
    ledger = Ledger()
    for name, rows in machines.items():
        ledger.put_node(name, Inventory(1, tuple(make_cards(len(rows))), topology=rows))
    return ledger


def score(ledger, name, request):
    entry = ledger.find_node(name)
    assert isinstance(entry, NodeEntry)
    return LinkScores(request).score(entry, float(ledger.table.used_fraction[entry.row]))


def test_three_cards_are_placed_on_node_with_group_of_four():
    ledger, three = fill(A=EVEN, B=UNEVEN, C=EVEN), ask({"Run": 3})
    scores = {name: score(ledger, name, three) for name in "ABC"}
    assert scores["B"] > scores["A"] == scores["C"]
    assigned = ledger.reserve(PodRef("d", "p", "u"), "B", three, Policy.BINPACK)
    assert [share.card for share in assigned.containers["Run"]] == ["e", "f", "g"]


def test_full_node_of_best_shape_scores_zero():
    # KubeGPU asks for the best shape that any machine has, busy or not, and then fits nowhere else.
    ledger, eight, three = fill(A=EVEN, B=UNEVEN), ask({"Run": 8}), ask({"Run": 3})
    ledger.reserve(PodRef("d", "p", "u"), "B", eight, Policy.BINPACK)
    with pytest.raises(MisfitError):
        ledger.reserve(PodRef("d", "q", "v"), "B", three, Policy.BINPACK)
    assert score(ledger, "A", three) > score(ledger, "B", three) == 0


@pytest.mark.parametrize(
    ("cards", "chosen"),
    [(1, [11]), (2, [8, 9]), (3, [8, 9, 10]), (4, [0, 1, 2, 3]), (5, [0, 1, 2, 3, 7]), (8, list(range(8)))],
)
def test_request_uses_smallest_sufficient_group_of_uneven_tree(cards, chosen):
    rows = draw_tree([4, 3, 1], [3, 1])
    states = build_empty_states(make_cards(12))
    placed = place(states, ask({"Run": cards}), Policy.BINPACK, links=connect(rows))
    assert sorted("abcdefghijkl".index(share.card) for share in placed.containers["Run"]) == chosen


def test_smallest_cards_that_meet_minimum_memory_are_selected():
    request = ask(
        {"Init0": 1, "Run0": 2, "Run1": 1},
        {"Run0": card("gpu/a", 256_000) | card("gpu/b", 178_000), "Run1": card("gpu/0", 190_000)},
        {"Init0": card("gpu/0", 100_000)},
    )
    found = choose(ALONE, request, MEMORY)
    # KubeGPU takes dev2 for a, only because its dev1 has an attribute more.
    assert found["Run0"] == [1, 4]
    assert found["Run1"] == [3]
    assert set(found["Init0"]) <= {1, 4}


def test_largest_card_of_init_container_is_reused_by_app_container():
    request = ask(
        {"Init0": 1, "Run0": 2, "Run1": 1},
        {"Run0": card("gpu/a", 256_000) | card("gpu/b", 178_000), "Run1": card("gpu/0", 190_000)},
        {"Init0": card("gpu/0", 257_000)},
    )
    assert choose(ALONE, request, MEMORY) == {"Init0": [2], "Run0": [2, 4], "Run1": [3]}


def test_containers_without_preferences_get_distinct_cards():
    found = choose(ALONE, ask({"Init0": 1, "Run0": 2, "Run1": 1}), MEMORY)
    assert set(found["Init0"]) <= set(found["Run0"])
    assert len({*found["Run0"], *found["Run1"]}) == 3


def test_grouped_cards_with_minimum_memory_leave_groups_for_other_containers():
    request = ask(
        {"Init0": 1, "Run0": 2, "Run1": 1, "Run2": 2},
        {
            "Run0": card("gpugrp0/A/gpu/a", 190_000) | card("gpugrp0/A/gpu/b", 178_000),
            "Run1": card("gpu/0", 256_000),
            "Run2": card("gpu/0", 256_000) | card("gpu/1", 100_000),
        },
        {"Init0": card("gpu/0", 100_000)},
    )
    found = choose(GROUPS, request, MEMORY)
    assert {name: found[name] for name in ("Run0", "Run1", "Run2")} == {"Run0": [3, 4], "Run1": [2], "Run2": [0, 1]}
    assert set(found["Init0"]) <= {3, 4}


def test_outer_group_of_four_and_inner_group_of_two_use_different_sockets():
    outer = [card(f"gpugrp1/0/gpugrp0/{group}/gpu/{name}") for group, name in zip("ABCD", "abcd", strict=True)]
    inner = [card(f"gpugrp0/A/gpu/{name}") for name in "ab"]
    asked = {key: value for each in (*outer, *inner) for key, value in each.items()}
    found = choose(EVEN, ask({"Run0": 6}, {"Run0": asked}))["Run0"]
    low, high = [each for each in found if each < 4], [each for each in found if each >= 4]
    four, two = sorted((low, high), key=len, reverse=True)
    assert len(four) == 4
    assert two[1] - two[0] == 1
    assert two[0] % 2 == 0


def test_request_larger_than_any_group_of_node_is_refused():
    request = ask({"Run0": 3}, {"Run0": {k: 1 for name in "abc" for k in card(f"gpugrp0/A/gpu/{name}")}})
    assert isinstance(place(build_empty_states(make_cards(8)), request, Policy.BINPACK, links=connect(EVEN)), Misfit)
    assert choose(UNEVEN, request) == {"Run0": [4, 5, 6]}
