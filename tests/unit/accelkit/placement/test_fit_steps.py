"""What a search costs, counted in steps, and that what it leaves out would have found nothing else."""

import random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.budget import Budget, limit_steps
from accelkit.placement.card_state import CardState
from accelkit.placement.demand import list_demands
from accelkit.placement.fit import place
from accelkit.placement.misfit import MisfitReason
from accelkit.placement.policies import Policy, rank_card

KINDS = {
    "equal": lambda _: 20,
    "mixed": lambda numbers: numbers.randrange(5, 40),
}


def cards(free, compute=None):
    compute = compute or [1000] * len(free)
    return [
        CardState(Card(f"{number}", "v", "m", 80, index=number), each, compute[number], empty=False)
        for number, each in enumerate(free)
    ]


def plain(*memory, compute=0):
    return PodRequest(tuple(ContainerRequest(f"{n}", Kind.APP, 1, each, compute) for n, each in enumerate(memory)))


def count_steps(states, request):
    budget = Budget(10**9)
    placed = place(states, request, Policy.BINPACK, budget)
    return 10**9 - budget.steps, placed


@pytest.mark.parametrize("kind", KINDS)
def test_placing_19_plain_containers_on_300_nodes_needs_few_steps(kind):
    numbers = random.Random(1)  # noqa: S311 - the same on every run
    request = plain(*(KINDS[kind](numbers) for _ in range(19)))
    nodes = [cards([numbers.randrange(2, 80) for _ in range(8)]) for _ in range(300)]
    found = [count_steps(states, request) for states in nodes]
    limit = limit_steps(8, request.containers)
    # A puzzle may remain among mixed sizes, on few nodes.
    assert sum(steps >= limit for steps, _ in found) <= (0 if kind == "equal" else 15)
    assert sum(steps for steps, _ in found) < 300 * 19 * (4 if kind == "equal" else 12)


def test_one_excess_container_is_detected_without_trying_arrangements():
    assert count_steps(cards([40, 41, 42, 43, 44, 45, 46, 47]), plain(*[20] * 17))[0] < 17 * 8
    steps, placed = count_steps(cards([40, 41, 42, 43, 44, 45, 46, 47]), plain(*[20] * 16))
    assert (steps, isinstance(placed, Assignment)) == (16, True)


def test_insufficient_compute_is_detected_in_few_steps():
    steps, placed = count_steps(cards(range(70, 78), compute=[300] * 8), plain(*[1] * 17, compute=150))
    assert placed.reason is MisfitReason.COMPUTE
    assert steps < 17 * 8


def test_memory_demands_are_summarized_in_at_most_8_levels():
    demands = list_demands(plain(*range(1, 101)).containers)
    assert all(len(memory.levels) <= 8 for memory, _ in demands)
    assert demands[0][0].levels[0] == (100, 1, 1)
    assert demands[99][0].total == 100


def first_choice(free, memory, policy):
    """Every choice in the order that the policy likes, one container after the other."""
    if not memory:
        return ()
    fitting = [index for index, each in enumerate(free) if each >= memory[0]]
    for index in sorted(fitting, key=lambda i: rank_card(policy, free[i], i)):
        left = [each - memory[0] * (place == index) for place, each in enumerate(free)]
        if (rest := first_choice(left, memory[1:], policy)) is not None:
            return (index, *rest)
    return None


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.lists(st.sampled_from([2, 3, 3, 4, 5]), min_size=1, max_size=7),
    st.sampled_from(Policy),
)
@settings(max_examples=400)
def test_plain_containers_get_first_choice_of_exhaustive_search(free, memory, policy):
    placed, expected = place(cards(free), plain(*memory), policy), first_choice(free, memory, policy)
    event("fits" if expected else "does not fit")
    if expected is None:
        assert placed.reason is MisfitReason.MEMORY
    else:
        assert [int(shares[0].card) for shares in placed.containers.values()] == list(expected)


@pytest.mark.parametrize(("steps", "lent"), [(100, 10), (4, 4)])
def test_steps_spent_from_lent_budget_are_deducted(steps, lent):
    budget = Budget(steps)
    with budget.lend(10) as trial:
        assert trial.steps == lent
        trial.steps -= 3
    assert budget.steps == steps - 3


def test_steps_spent_before_error_are_deducted():
    budget = Budget(9)

    def spend():
        with budget.lend(5) as lent:
            lent.steps = 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        spend()
    assert budget.steps == 4
