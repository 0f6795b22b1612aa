"""What is learnt of the tasks that come."""

import pytest

from accelkit.placement import mix as module
from accelkit.placement.mix import TaskMix, TaskType


def observe(mix, task, times):
    for _ in range(times):
        mix.observe(task)


def test_task_without_cards_is_not_counted_in_mix():
    mix = TaskMix()
    mix.observe(TaskType(0, 0, 1000))
    assert (mix.epoch, mix.list_types()) == (0, [])


def test_type_shares_are_relative_frequencies():
    mix = TaskMix()
    half, whole = TaskType(1, 500), TaskType(1, 0)
    for _ in range(module._EPOCH):
        observe(mix, half, 3)
        observe(mix, whole, 1)
    assert dict(mix.list_types()) == pytest.approx({half: 0.75, whole: 0.25}, abs=0.01)


def test_older_tasks_have_less_weight_in_mix(monkeypatch):
    monkeypatch.setattr(module, "_HALF_LIFE", 100)
    mix = TaskMix()
    old, new = TaskType(1, 500), TaskType(1, 0)
    observe(mix, old, module._EPOCH)
    observe(mix, new, 2 * module._EPOCH)
    assert dict(mix.list_types())[new] > 0.99


def test_epochs_are_short_initially_and_longer_later():
    mix, epochs = TaskMix(), []
    for _ in range(4 * module._EPOCH):
        mix.observe(TaskType(1, 500))
        epochs.append(mix.epoch)
    assert epochs[:4] == [1, 2, 2, 3]
    assert epochs[-1] - epochs[2 * module._EPOCH] <= 2


def test_mix_is_limited_to_few_types_and_keeps_every_size():
    mix = TaskMix()
    for number in range(module._EPOCH):
        mix.observe(TaskType(1 + number % 2, 100 * (number % 7), cpu_milli=number))
    types = mix.list_types()
    assert len(types) == module._MOST_TYPES
    assert sum(part for _, part in types) == pytest.approx(1)
    # Each size has one that stands for it.
    assert {(task.cards, task.memory_bytes) for task, _ in types} == {(c, 100 * m) for c in (1, 2) for m in range(7)}


def test_rare_type_is_merged_into_most_similar_type(monkeypatch):
    monkeypatch.setattr(module, "_MOST_TYPES", 2)
    monkeypatch.setattr(module, "_MOST_SIZES", 2)
    mix = TaskMix()
    small, large, rare = TaskType(1, 100, 1000), TaskType(1, 900, 1000), TaskType(1, 120, 8000)
    for _ in range(module._EPOCH):
        observe(mix, small, 2)
        observe(mix, large, 2)
        observe(mix, rare, 1)
    assert dict(mix.list_types()) == pytest.approx({small: 0.6, large: 0.4}, abs=0.01)


def test_number_of_remembered_types_is_limited(monkeypatch):
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 50)
    mix = TaskMix()
    for number in range(4 * module._EPOCH):
        mix.observe(TaskType(1, 1 + number))
    assert len(mix._counts) <= 50 + module._EPOCH


def test_representative_of_multi_card_tasks_has_high_cpu_request():
    mix = TaskMix()
    hosts = [*[1000] * 12, *[8000] * 9, 64_000]
    for cpu in hosts:
        mix.observe(TaskType(8, 16, cpu, 0))
        mix.observe(TaskType(1, 16, cpu, 0))
    standing = {cards: [task.cpu_milli for task, _ in mix.list_types() if task.cards == cards] for cards in (1, 8)}
    assert standing[8][0] == 8000
    assert standing[1][0] == 1000
