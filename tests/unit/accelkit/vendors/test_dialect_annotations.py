import msgspec
import pytest
from support.pods import build_container, build_pod

from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.pod import Pod
from accelkit.vendors.annotations import Granted
from accelkit.vendors.dialects import load_dialect
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
    """A pod whose containers request `resources` as {container: limits}."""
    containers = [build_container(limits, name) for name, limits in resources.items()]
    return msgspec.convert(build_pod("p", *containers, metadata={"annotations": annotations}, nodeName="n"), Pod)


def test_gcushare_writes_documented_annotations():
    shares = granted(c=("id-1", 8))
    assert codec("gcushare").write(shares, NOW) == {
        "enflame.com/gcu-device-assign-time": str(NOW),
        "enflame.com/gcu-device-assigned": "false",
        "enflame.com/gcu-device-id": "1",
        "enflame.com/gcu-device-memory": "16",
        "enflame.com/gcu-device-memory-request": "8",
    }


def test_gcushare_settle_updates_card_after_allocation_by_kubelet():
    written = codec("gcushare").write(granted(c=("id-1", 8)), NOW)
    changes = codec("gcushare").settle(written, granted(c=("id-2", 8)), NOW)
    assert changes == {"enflame.com/gcu-device-assigned": "true", "enflame.com/gcu-device-id": "2"}
    assert codec("gcushare").settle({**written, **changes}, granted(c=("id-2", 8)), NOW) == {}


def test_aliyun_writes_its_annotations_and_allocation_time():
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


def test_gas_writes_cards_of_each_container():
    assignment = Assignment({"a": (Share("id-1", 1), Share("id-0", 1)), "c": (Share("id-2", 1),)})
    shares = Granted(assignment, ("a", "b", "c"), {card.id: card for card in CARDS}, 1)
    assert codec("gas").write(shares, NOW) == {"gas-ts": str(NOW), "gas-container-cards": "card0,card1||card2"}


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
def test_foreign_assignments_of_all_dialects_are_read(name, limits, annotations, expected):
    found = read_foreign_assignment(read(pod({"c": limits}, **annotations), name), CARDS, 1)
    assert [(share.card, share.memory_bytes, share.compute) for share in found.containers["c"]] == expected
    assert read_foreign_assignment(read(pod({"c": limits}), name), CARDS, 1) is None


def test_foreign_card_number_matches_minor_or_else_position():
    limits, annotations = {"c": {"enflame.com/gcu-memory": 8}}, {"enflame.com/gcu-device-id": "0"}
    numbered = [Card("x", "v", "m", 16, minor=1), Card("y", "v", "m", 16, minor=0)]
    plain = [Card("x", "v", "m", 16), Card("y", "v", "m", 16)]
    for cards, expected in ((numbered, "y"), (plain, "x")):
        found = read_foreign_assignment(read(pod(limits, **annotations), "gcushare"), cards, 1)
        assert [share.card for share in found.containers["c"]] == [expected]


def test_init_container_of_foreign_pod_uses_card_of_first_container():
    taken = pod({"c": {"enflame.com/gcu-memory": 8}}, **{"enflame.com/gcu-device-id": "2"})
    init = msgspec.structs.replace(taken.spec.containers[0], name="i")
    taken = msgspec.structs.replace(taken, spec=msgspec.structs.replace(taken.spec, init_containers=[init]))
    found = read_foreign_assignment(read(taken, "gcushare"), CARDS, 1)
    assert {name: shares[0].card for name, shares in found.containers.items()} == {"i": "id-2", "c": "id-2"}


def test_gas_settle_changes_cards_only_when_kubelet_allocated_other_cards():
    written = codec("gas").write(granted(c=("id-1", 1)), NOW)
    assert codec("gas").settle(written, granted(c=("id-1", 1)), NOW + 1) == {}
    assert codec("gas").settle(written, granted(c=("id-2", 1)), NOW + 1) == {"gas-container-cards": "card2"}
