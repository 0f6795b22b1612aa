import pytest
from device_names import unit

from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.card import Card
from accelkit.model.request import Kind
from accelkit.node.node_cards import NodeCards
from accelkit.node.reconciliation.observed_assignment import ContainerDevices, observe_assignment

NODE = NodeCards({name: Card(name, "v", "m", 16) for name in "abc"}, 1)


def ids(text):
    """Device IDs of memory: `aab` is two of a and one of b."""
    return ContainerDevices(memory=[unit(card, number) for number, card in enumerate(text)])


def cards(text):
    return ContainerDevices(whole=list(text))


def shares(text, worth=1):
    return tuple(Share(card, text.count(card) * worth) for card in sorted(set(text)))


def observe(assigned, *, order=(("c", Kind.APP),), unit_bytes=1, **held):
    assignment = None if assigned is None else Assignment(dict(assigned))
    found = observe_assignment(assignment, order, held, NODE, unit_bytes)
    return None if found is None else found.containers


@pytest.mark.parametrize(
    ("assigned", "held", "expected"),
    [
        (shares("aa"), ids("bb"), shares("bb")),
        (shares("aabb"), ids("abbc"), shares("abbc")),
        ((Share("a", 2, 300),), ids("bb"), (Share("b", 2, 300),)),
        ((Share("a", 16, 1000, whole=True),), cards("b"), (Share("b", 16, 1000, whole=True),)),
    ],
    ids=["another card", "several cards", "compute goes with the container", "a whole card is all of its memory"],
)
def test_observed_assignment_has_devices_chosen_by_kubelet(assigned, held, expected):
    assert observe({"c": assigned}, c=held) == {"c": expected}


def test_pod_without_assignment_is_charged_held_devices():
    assert observe(None, c=ids("bbb")) == {"c": shares("bbb")}
    assert observe(None) is None


def test_devices_count_in_unit_of_their_allocation():
    for assigned in (shares("aa", 4), (Share("a", 7),)):
        assert observe({"c": assigned}, unit_bytes=4, c=ids("bb")) == {"c": shares("bb", 4)}


def test_a_container_that_the_kubelet_does_not_report_keeps_its_assignment():
    assert observe({"c": shares("a"), "d": shares("b")}, c=ids("b")) == {"c": shares("b"), "d": shares("b")}


@pytest.mark.parametrize(
    "device", ["GPU-1-_-3", unit("z", 1), "a", "a::1", unit("a", 1) + "A", unit("a", 1)[:-1], unit("a", 0) + "1"]
)
def test_devices_of_another_plugin_are_ignored(device):
    held = ContainerDevices(memory=[device])
    assert observe({"c": shares("a")}, c=held) == {"c": shares("a")}
    assert observe(None, c=held) is None


def test_init_container_has_cards_of_next_container():
    order = (("i", Kind.INIT), ("c", Kind.APP))
    assert observe({"i": shares("aaa"), "c": shares("aa")}, order=order, c=ids("bb")) == {
        "i": shares("bbb"),
        "c": shares("bb"),
    }


def test_init_container_keeps_its_cards_if_later_containers_have_other_cards():
    order = (("i", Kind.INIT), ("c", Kind.APP), ("d", Kind.APP))
    planned = {"i": shares("aa"), "c": shares("a"), "d": shares("a")}
    assert observe(planned, order=order, c=ids("b"), d=ids("c"))["i"] == shares("aa")


def test_an_init_container_that_the_kubelet_reports_holds_the_reported_devices():
    order = (("i", Kind.INIT), ("c", Kind.APP))
    planned = {"i": shares("a"), "c": shares("a")}
    assert observe(planned, order=order, i=ids("c"), c=ids("b")) == {"i": shares("c"), "c": shares("b")}


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.INIT])
def test_only_an_init_container_passes_its_devices_on(kind):
    planned = {"d": shares("a"), "c": shares("a")}
    assert observe(planned, order=(("d", kind), ("c", Kind.APP)), c=ids("b")) == {"d": shares("a"), "c": shares("b")}


def test_init_container_without_assignment_has_no_shares():
    order = (("i", Kind.INIT), ("c", Kind.APP))
    assert observe({"c": shares("a")}, order=order, c=ids("b")) == {"c": shares("b")}


def test_moving_shares_are_not_part_of_the_observed_assignment():
    assert observe({"c": shares("a"), MOVING: shares("b")}, c=ids("a")) == {"c": shares("a")}
