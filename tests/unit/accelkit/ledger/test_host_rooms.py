"""What hosts have free."""

import math

import pytest
from support.requests import build_inventory

from accelkit.ledger.host_rooms import HostRooms
from accelkit.ledger.ledger import Ledger
from accelkit.model.host_amounts import HostAmounts


class Rooms(HostRooms):
    """With what the ledger's table shows."""

    def __init__(self):
        self.ledger = Ledger(unit_bytes=1)
        super().__init__(self.ledger)

    def join(self, name):
        self.ledger.put_node(name, build_inventory(f"{name}-0"))
        self.put_node(name, HostAmounts(4000, 100))

    def free(self, name):
        columns, row = self.ledger.table.get_columns(), self.ledger.find_row(name)
        return columns.cpu[row], columns.host_bytes[row]


@pytest.fixture
def rooms():
    rooms = Rooms()
    rooms.join("a")
    return rooms


def test_pods_reduce_free_host_amounts_until_their_end(rooms):
    rooms.put_pod("p", "a", HostAmounts(1000, 10))
    rooms.put_pod("q", "a", HostAmounts(500, 20))
    assert rooms.free("a") == (2500, 70)
    rooms.put_pod("p", "a", HostAmounts(2000, 10))
    assert rooms.free("a") == (1500, 70)
    rooms.end_pod("p")
    rooms.end_pod("p")
    assert rooms.free("a") == (3500, 80)
    rooms.end_pod("q")
    assert rooms.free("a") == (4000, 100)


def test_host_amounts_of_unlisted_pods_are_released(rooms):
    for uid in "pqr":
        rooms.put_pod(uid, "a", HostAmounts(1000, 10))
    rooms.keep_pods({"q"})
    assert rooms.free("a") == (3000, 90)


def test_pods_known_before_their_node_reduce_its_free_amounts(rooms):
    rooms.put_pod("p", "b", HostAmounts(1000, 10))
    rooms.join("b")
    assert rooms.free("b") == (3000, 90)


def test_pods_of_dropped_node_are_counted_again_after_its_return(rooms):
    rooms.put_pod("p", "a", HostAmounts(1000, 10))
    rooms.keep_nodes([])
    rooms.ledger.drop_node("a")
    rooms.join("a")
    assert rooms.free("a") == (3000, 90)


def test_node_without_host_amounts_is_unlimited(rooms):
    rooms.ledger.put_node("b", build_inventory("b-0"))
    rooms.put_pod("p", "b", HostAmounts(1000, 10))
    assert rooms.free("b") == (math.inf, math.inf)


def test_unchanged_pod_or_node_event_does_not_change_table(rooms):
    rooms.put_pod("p", "a", HostAmounts(1000, 10))
    tick = rooms.ledger.table.tick
    rooms.put_pod("p", "a", HostAmounts(1000, 10))
    rooms.put_node("a", HostAmounts(4000, 100))
    assert rooms.ledger.table.tick == tick
