"""Pods and cards as other systems mark them, in any order of events."""

import msgspec
import pytest
from support.nodes import read_node
from support.pods import build_container, read_pod

from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.pod import ConfigMap
from accelkit.vendors.dialects import load_dialects

CARDS = tuple(Card(f"id-{number}", "v", "m", 16, index=number, minor=number) for number in range(3))
INVENTORY = encode_inventory(Inventory(1, CARDS))


class World:
    def __init__(self, *dialects):
        self.ledger = Ledger(unit_bytes=1)
        self.feed = LedgerFeed(self.ledger, load_dialects(dialects or ("native", "gcushare", "aliyun", "gas")))

    def node(self, *, kind="MODIFIED", labels=None, inventory=INVENTORY, **annotations):
        self.feed.take_node_event(kind, read_node("n", inventory, labels=labels, annotations=annotations))

    def pod(self, *, kind="ADDED", phase="Running", device="2", units="8"):
        annotations = {"enflame.com/gcu-device-id": device} if device else {}
        metadata = {"uid": "u", "creationTimestamp": "2022-09-06T07:40:43Z", "annotations": annotations}
        container = build_container({"enflame.com/gcu-memory": units})
        pod = read_pod("p", container, metadata=metadata, status={"phase": phase}, nodeName="n")
        self.feed.take_pod_event(kind, pod)

    def used(self):
        return {card: use.used_bytes for card, use in self.ledger.find_node("n").uses.items()}

    def unassigned(self):
        return [pod.problem for pod in self.ledger.find_node("n").unassigned.values()]

    def placeable(self):
        return [card.id for card in self.ledger.find_node("n").list_cards() if card.placeable]

    def bad(self, gpus, *, kind="MODIFIED", name="unhealthy-gpu-n"):
        metadata = {"name": name, "namespace": "kube-system"}
        self.feed.take_config_map_event(
            kind, msgspec.convert({"metadata": metadata, "data": {"gpus": gpus}}, ConfigMap)
        )


@pytest.fixture
def world():
    return World()


def test_ended_pod_is_not_charged_when_its_cards_become_known(world):
    world.pod()
    world.pod(kind="MODIFIED", phase="Succeeded")
    world.node()
    assert (world.used(), world.unassigned()) == ({}, [])
    world.pod()
    world.pod(kind="DELETED")
    assert world.used() == {}


def test_pod_is_charged_when_its_assigned_card_becomes_known(world):
    world.pod()
    world.node(inventory=encode_inventory(Inventory(1, CARDS[:1])))
    assert world.unassigned() == ["container c was assigned card 2, which does not exist on its node"]
    world.node()
    assert (world.used(), world.unassigned()) == ({"id-2": 8}, [])


def test_cordoned_cards_are_not_placeable_until_cordon_is_removed(world):
    world.node()
    world.node(**{"accelkit.io/cordon": "0,id-2"})
    assert world.placeable() == ["id-1"]
    world.node(labels={"accelkit.io/cordon": "1"})
    assert world.placeable() == ["id-0", "id-2"]
    world.node(labels={"telemetry.aware.scheduling.policy/gas-disable-card1": "true"})
    assert world.placeable() == ["id-0", "id-2"]
    world.node()
    assert len(world.placeable()) == 3


def test_cards_in_unhealthy_list_of_aliyun_are_not_placeable(world):
    world.bad("0, 2")
    world.node()
    assert world.placeable() == ["id-1"]
    world.bad("1", name="something-else")
    world.bad("0")
    assert world.placeable() == ["id-1", "id-2"]
    world.bad("0", kind="DELETED")
    assert len(world.placeable()) == 3
    world.bad("1")
    world.node(**{"accelkit.io/cordon": "0"})
    assert world.placeable() == ["id-2"]
    world.feed.replace_config_maps([])
    assert world.placeable() == ["id-1", "id-2"]


def test_unhealthy_list_of_disabled_dialect_is_ignored():
    world = World("native")
    world.node()
    world.bad("0")
    assert len(world.placeable()) == 3


def test_unlisted_pod_is_not_charged_when_its_cards_become_known(world):
    world.pod()
    world.feed.replace_pods([])
    world.node()
    assert (world.used(), world.unassigned()) == ({}, [])
