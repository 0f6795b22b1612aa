"""Scores of the policy that looks at what other pods could use."""

import random

import pytest
from support.requests import build_request

from accelkit.extender.node_scores import NodeScores
from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card
from accelkit.model.host_amounts import HostAmounts
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.placement.mix import TaskMix, describe_task
from accelkit.placement.policies import Policy

HOST = HostAmounts(1000, 10)


def share(memory):
    return build_request(memory)


WHOLE = build_request()


class World:
    def __init__(self):
        self.ledger, self.mix = Ledger(unit_bytes=1), TaskMix()
        self.scores = NodeScores(self.ledger, self.mix)

    def node(self, name, *, cards=2, cpu=16_000.0):
        self.ledger.put_node(name, Inventory(1, tuple(Card(f"{name}-{i}", "v", "m", 100) for i in range(cards))))
        self.ledger.note_host(name, HostAmounts(cpu, 1000))

    def hold(self, name, memory):
        uid = f"{name}-{memory}"
        self.ledger.reserve(PodRef("d", uid, uid), name, share(memory), Policy.BINPACK)

    def learn(self, *requests, host=HOST):
        for request in requests:
            self.mix.observe(describe_task(request, host))

    def score(self, *names, request=None):
        asked = request or share(40)
        found = self.scores.rank(list(names), asked, Policy.FRAGMENTATION, describe_task(asked, HOST))
        return {each.Host: each.Score for each in found}


@pytest.fixture
def world():
    return World()


def test_node_with_little_cpu_scores_higher_for_pod_with_small_cpu_request(world):
    world.node("rich")
    world.node("poor", cpu=1000.0)
    world.learn(*[share(50)] * 10, host=HostAmounts(4000, 10))
    assert world.score("rich", "poor") == {"rich": 0, "poor": 10}


def test_only_one_of_many_different_nodes_has_the_maximum_score(world):
    for number in range(20):
        world.node(f"n{number}")
        world.hold(f"n{number}", 1 + number)
    world.learn(*[share(40), WHOLE] * 10)
    scores = world.score(*(f"n{number}" for number in range(20)))
    assert sorted(scores.values()).count(10) == 1
    assert min(scores.values()) == 0


def test_equal_nodes_score_the_same_and_unknown_nodes_zero(world):
    world.node("a")
    world.node("b")
    assert world.score("a", "b", "x") == {"a": 10, "b": 10, "x": 0}
    assert world.score("x") == {"x": 0}


def test_node_added_later_is_scored(world):
    world.node("a")
    world.learn(*[share(40)] * 4)
    assert world.score("a") == {"a": 10}
    for number in range(40):
        world.node(f"n{number}")
    world.hold("n39", 60)
    scores = world.score("a", *(f"n{number}" for number in range(40)))
    assert max(scores, key=scores.get) == "n39"


@pytest.mark.parametrize("seed", range(20))
def test_equal_nodes_are_chosen_in_order_of_registration(seed):
    numbers, world = random.Random(seed), World()  # noqa: S311 - a test
    names = [f"n{number}" for number in range(40)]
    for name in names:
        world.node(name, cards=1)
        if memory := numbers.choice((0, 0, 10, 50)):
            world.hold(name, memory)
    rows = {name: world.ledger.find_row(name) for name in names}
    used = {name: world.ledger.table.used_fraction[row] for name, row in rows.items()}
    asked = numbers.sample(names, numbers.randint(1, len(names)))
    for policy, sign in ((Policy.SPREAD, 1), (Policy.BINPACK, -1)):
        ordered = sorted(asked, key=lambda name: (sign * used[name], rows[name]))
        for most in (1, 3, 16, len(asked), 100):
            chosen = world.scores.choose(asked, most, share(1), policy, None)
            assert chosen == ordered[:most]


def test_topology_policy_chooses_nodes_by_prioritize_scores():
    world = World()
    names = [f"n{number}" for number in range(12)]
    for place, name in enumerate(names):
        world.node(name)
        if place % 3:
            world.hold(name, 30 * (place % 3))
    request = build_request(10)
    scores = {each.Host: each.Score for each in world.scores.rank(names, request, Policy.TOPOLOGY, None)}
    assert len(set(scores.values())) > 1
    chosen = world.scores.choose(names, 5, request, Policy.TOPOLOGY, None)
    assert chosen == sorted(names, key=lambda name: (-scores[name], names.index(name)))[:5]
