"""The measure of usable cards against a plain count of it, node by node and task by task."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelkit.placement import fragmentation as module
from accelkit.placement.fragmentation import Columns, Usability
from accelkit.placement.mix import TaskType

WIDTH = 4
CAPACITY = 1000

AMOUNTS = st.sampled_from([0, 100, 250, 470, 530, 810, 1000])
TYPES = st.builds(
    TaskType,
    cards=st.integers(1, 3),
    memory_bytes=AMOUNTS,
    cpu_milli=st.sampled_from([0, 500, 1000, 4000]),
    host_bytes=st.sampled_from([0, 10, 50]),
)
NODES = st.tuples(
    st.lists(st.sampled_from([0, 60, 190, 250, 470, 530, 730, 1000]), min_size=1, max_size=WIDTH),
    st.sampled_from([0, 900, 4000, 16000, math.inf]),
    st.sampled_from([0, 40, 200, math.inf]),
)


def columns(nodes):
    """Each node is (free of its cards, CPU, memory of the host)."""
    free = np.full((len(nodes), WIDTH), -1)
    capacity = np.zeros((len(nodes), WIDTH), dtype=np.int64)
    for row, (cards, _, _) in enumerate(nodes):
        free[row, : len(cards)] = sorted(cards, reverse=True)
        capacity[row, : len(cards)] = CAPACITY
    cpu, host = (np.array([node[place] for node in nodes], dtype=float) for place in (1, 2))
    return Columns(free, capacity, free == CAPACITY, cpu, host)


def usable(node, task):
    """What tasks of a type can use of a node, in cards."""
    cards, cpu, host = node
    rooms = [(free == CAPACITY) if task.whole else free // max(task.memory_bytes, 1) for free in cards]
    fit = [free / CAPACITY for free, room in zip(cards, rooms, strict=True) if room]
    carried = min(cpu / max(task.cpu_milli, 1), host / max(task.host_bytes, 1))
    if len(fit) < task.cards or carried < 1:
        return 0.0
    share = 1.0 if task.whole else task.memory_bytes / CAPACITY
    tasks = sum(rooms) if task.cards == 1 else len(fit) / task.cards
    filled = sum(rooms) * share if task.cards == 1 else sum(fit)
    part = min(1.0, carried / tasks)
    return module._FILLED * filled * part + (1 - module._FILLED) * sum(fit)


def weights(mix, nodes):
    cards = sum(len(node[0]) for node in nodes)
    found = []
    for task, part in mix:
        demand = task.cards * (task.memory_bytes / CAPACITY if task.memory_bytes else 1.0)
        supply = max(sum(usable(node, task) for node in nodes) / cards, module._LEAST_SUPPLY)
        weight = part * max(demand, module._LEAST_DEMAND) ** -module._BY_DEMAND / supply
        found.append(weight * (module._SEVERAL if task.cards > 1 else 1.0))
    return [weight / sum(found) for weight in found]


def worth(node, mix, found):
    return sum(weight * usable(node, task) for (task, _), weight in zip(mix, found, strict=True))


def placed(node, task):
    """The node after the task, on the tightest cards; None where it does not fit."""
    cards, cpu, host = list(node[0]), node[1] - task.cpu_milli, node[2] - task.host_bytes
    for _ in range(task.cards):
        amount = CAPACITY if task.whole else task.memory_bytes
        fitting = sorted(free for free in cards if free >= max(amount, 1))
        if not fitting:
            return None
        cards.remove(fitting[0])
        cards.append(-fitting[0] if task.whole else -(fitting[0] - amount) - 10_000)
    if cpu < 0 or host < 0:
        return None
    # Cards that were taken stand aside as negative numbers, so that each is taken once.
    return [0 if -CAPACITY <= c < 0 else (-c - 10_000 if c < 0 else c) for c in cards], cpu, host


def rest(node, nodes):
    known = [max([1.0] + [each[place] for each in nodes if math.isfinite(each[place])]) for place in (1, 2)]
    hosts = sum(min(value / most, 1.0) for value, most in zip(node[1:], known, strict=True))
    return sum(node[0]) / CAPACITY / WIDTH + hosts


@settings(max_examples=200)
@given(
    nodes=st.lists(NODES, min_size=1, max_size=5),
    types=st.lists(TYPES, min_size=1, max_size=6, unique=True),
    task=TYPES,
)
def test_loss_is_difference_of_usability_before_and_after_placement(nodes, types, task):
    mix = [(each, 1 / len(types)) for each in types]
    usability, table = Usability(), columns(nodes)
    usability.rebuild(mix, table)
    after = [placed(node, task) for node in nodes]
    rows = np.array([row for row, node in enumerate(after) if node is not None], dtype=np.int64)
    found = weights(mix, nodes)
    expected = [
        worth(nodes[row], mix, found) - worth(after[row], mix, found) + module._BEST_FIT * rest(after[row], nodes)
        for row in rows
    ]
    assert usability.measure_losses(task, rows, table.take(rows)) == pytest.approx(expected, abs=2e-5)


@given(nodes=st.lists(NODES, min_size=2, max_size=5), new=NODES)
def test_refresh_of_changed_row_equals_refresh_of_all_rows(nodes, new):
    mix = [(TaskType(1, 470, 1000, 10), 0.5), (TaskType(2, 0, 4000, 50), 0.5)]
    usability, whole = Usability(), Usability()
    usability.rebuild(mix, columns(nodes))
    whole.rebuild(mix, columns(nodes))
    changed = [new, *nodes[1:]]
    rows, task = np.arange(len(nodes)), TaskType(1, 100)
    usability.refresh(np.array([0]), columns(changed).take(np.array([0])))
    whole.refresh(rows, columns(changed))
    first = usability.measure_losses(task, rows, columns(changed))
    assert first == pytest.approx(whole.measure_losses(task, rows, columns(changed)), abs=1e-6)


def test_fullest_node_has_lowest_loss_without_task_mix():
    nodes = [([1000, 1000], 4000, 100), ([1000, 250], 4000, 100), ([1000, 1000], 1000, 100)]
    usability = Usability()
    usability.rebuild([], columns(nodes))
    losses = usability.measure_losses(TaskType(1, 100), np.arange(3), columns(nodes))
    assert losses.argmin() in {1, 2}
    assert losses.argmax() == 0


def test_rows_added_after_rebuild_are_measured():
    mix = [(TaskType(1, 470), 1.0)]
    usability = Usability()
    usability.rebuild(mix, columns([([1000], 4000, 100)]))
    more = columns([([1000], 4000, 100)] * 3)
    usability.refresh(np.arange(1, 3), more.take(np.arange(1, 3)))
    losses = usability.measure_losses(TaskType(1, 470), np.arange(3), more)
    assert losses == pytest.approx([losses[0]] * 3)
