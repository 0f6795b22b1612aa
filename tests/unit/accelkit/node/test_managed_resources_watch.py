"""The agent's watch of the record of managed resources."""

import logging

import pytest
from fake_api.server import FakeApi

from accelkit.model.managed_resources import ManagedResources, encode_managed_resources
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import ConfigMap
from accelkit.node.managed_resources import ManagedResourcesWatch

MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"
NEWER = {"managed.json": '{"version":2,"resources":[]}'}


def record(*resources):
    return ConfigMap(ObjectMeta("record"), encode_managed_resources(ManagedResources(resources)))


@pytest.fixture
def changes():
    return []


@pytest.fixture
def watch(changes):
    return ManagedResourcesWatch(FakeApi(), "accelkit", "record", lambda: changes.append(1))


def test_only_listed_resources_are_managed(watch, changes):
    watch._replace([record(MEMORY)])
    assert watch.lists(MEMORY)
    assert not watch.lists(CARDS)
    watch._follow("MODIFIED", record(MEMORY))
    assert len(changes) == 1
    watch._follow("MODIFIED", record(MEMORY, CARDS))
    assert watch.lists(CARDS)
    assert len(changes) == 2


@pytest.mark.parametrize(
    "lose",
    [lambda watch: watch._replace([]), lambda watch: watch._follow("DELETED", record(MEMORY))],
    ids=["listed without it", "deleted"],
)
def test_missing_record_withdraws_all_resources(watch, lose):
    watch._replace([record(MEMORY)])
    lose(watch)
    assert not watch.lists(MEMORY)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"managed.json": "{"},
        NEWER,
        {"managed.json": '{"version":1,"resources":"x"}'},
        {"managed.json": "x" * 70_000},
    ],
    ids=["no data", "no key", "not JSON", "newer", "not a list", "too long"],
)
def test_unreadable_record_keeps_former_record_and_is_logged_once(watch, changes, caplog, data):
    watch._replace([record(MEMORY)])
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            watch._follow("MODIFIED", ConfigMap(ObjectMeta("record"), data))
    assert watch.lists(MEMORY)
    assert len(changes) == 1
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 1
    assert "the offered resources do not change" in caplog.text


def test_unreadable_record_at_start_manages_no_resource(watch):
    watch._replace([ConfigMap(ObjectMeta("record"), NEWER)])
    assert not watch.lists(MEMORY)


def test_watch_selects_one_config_map_by_name(watch):
    # RBAC grants list and watch of a named object only to requests with this selector.
    assert watch.reflector._query == {"fieldSelector": "metadata.name=record"}
