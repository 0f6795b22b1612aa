"""The nodes file and the default nodes."""

import json
import platform
from datetime import UTC, datetime

import pytest

from accelkit.errors import SandboxError
from accelkit.sandbox.kubelet.devices.device_values import NodeResources
from accelkit.sandbox.kubelet.node_status import NodeStatusBuilder
from accelkit.sandbox.nodes import NodeSpec, SimulatedCard, encode_cards, load_nodes

GIB = 2**30


def write(folder, text):
    path = folder / "nodes.yaml"
    path.write_text(text)
    return path


def test_default_nodes_have_equal_mixed_and_no_cards():
    nodes = {node.name: [card.memory_bytes // GIB for card in node.cards] for node in load_nodes(None)}
    assert nodes == {"node-1": [16] * 8, "node-2": [16, 16, 32, 32], "node-3": []}
    assert {card.model for node in load_nodes(None) for card in node.cards} == {"sim-16g", "sim-32g"}


def test_card_entry_with_count_is_expanded(tmp_path):
    text = """
nodes:
  - name: a
    labels: {zone: z}
    cpu: 4
    memory: 8GiB
    pods: 20
    cards: [{count: 2, memory: 16GiB, model: m, numa: 0}, {memory: 24GiB, target: "cuda:75"}]
  - name: b
"""
    first, second = load_nodes(write(tmp_path, text))
    assert first == NodeSpec(
        name="a",
        labels={"zone": "z"},
        cpu=4,
        memory_bytes=8 * GIB,
        pods=20,
        cards=(
            SimulatedCard(id="sim-a-0", model="m", memory_bytes=16 * GIB, numa=0),
            SimulatedCard(id="sim-a-1", model="m", memory_bytes=16 * GIB, numa=0),
            SimulatedCard(id="sim-a-2", model="sim-24g", memory_bytes=24 * GIB, target="cuda:75"),
        ),
    )
    assert second.cards == ()


def test_node_kernel_and_operating_system_are_configurable(tmp_path):
    text = """
nodes:
  - {name: a, kernel: 6.1.0-18-amd64, system: Debian GNU/Linux 12 (bookworm)}
  - {name: b}
"""
    infos = [
        NodeStatusBuilder(spec, now=lambda: datetime(2026, 1, 1, tzinfo=UTC), clock=float).build_patch(
            NodeResources(capacity={}, allocatable={}, removed=frozenset())
        )["status"]["nodeInfo"]
        for spec in load_nodes(write(tmp_path, text))
    ]
    assert (infos[0]["kernelVersion"], infos[0]["osImage"]) == ("6.1.0-18-amd64", "Debian GNU/Linux 12 (bookworm)")
    assert (infos[1]["kernelVersion"], infos[1]["osImage"]) == (platform.release(), "accelkit simulated node")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nodes: [", "cannot read the nodes file"),
        ("nodes: []", "does not contain any nodes"),
        ("[]", "Expected `object`"),
        ("nodes: [{name: a}, {name: a}]", "node name a twice"),
        ("nodes: [{name: a, kernel: 'a b'}]", "kernel"),
        ("nodes: [{name: a, system: ''}]", "system"),
        ("nodes: [{name: A_b}]", "not a valid node name"),
        ("nodes: [{name: a, pods: 0}]", "at least 1"),
        ("nodes: [{name: a, crads: []}]", "unknown field `crads`"),
        ("nodes: [{name: a, cards: [{memory: many}]}]", "not a valid size"),
        ("nodes: [{name: a, cards: [{memory: 1GiB, count: 0}]}]", "count must be between"),
        ("nodes: [{name: a, cards: [{memory: 1GiB, count: 1000}, {memory: 1GiB, count: 1000}]}]", "more than"),
        ("nodes: [{name: a, cards: [{memory: 1GiB, id: x, count: 2}]}]", "remove its count"),
        ("nodes: [{name: a, cards: [{memory: 1GiB, id: x}, {memory: 1GiB, id: x}]}]", "card id x twice"),
        ("nodes: [{name: a, cards: [{memory: 1GiB, id: 'x y'}]}]", "not a valid card ID"),
        ("nodes: [{name: a, cards: [{memory: 1GiB, target: gfx90a}]}]", "matching regex"),
        (f"nodes: [{{name: {'a' * 60}, cards: [{{memory: 1GiB}}]}}]", "not a valid card ID"),
    ],
)
def test_invalid_nodes_file_is_refused_with_path_and_reason(tmp_path, text, says):
    path = write(tmp_path, text)
    with pytest.raises(SandboxError) as failure:
        load_nodes(path)
    assert str(path) in str(failure.value)
    assert says in str(failure.value)


def test_missing_nodes_file_is_refused(tmp_path):
    with pytest.raises(SandboxError, match="cannot read the nodes file"):
        load_nodes(tmp_path / "none.yaml")


def test_encoded_cards_include_their_index():
    document = json.loads(encode_cards(load_nodes(None)[1]))
    assert document["version"] == 1
    assert document["cards"][2] == {
        "id": "sim-node-2-2",
        "model": "sim-32g",
        "memory_bytes": 32 * GIB,
        "numa": None,
        "target": "",
        "index": 2,
    }
