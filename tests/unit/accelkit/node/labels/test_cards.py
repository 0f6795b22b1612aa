from hypothesis import given
from hypothesis import strategies as st

from accelkit.model.card import Card
from accelkit.node.labels.cards import build_card_labels, split_value
from accelkit.vendors.profiles import load_profiles

GIB = 2**30
PROFILES = load_profiles()


def cards(vendor, count, model, memory=16, **more):
    amount = None if memory is None else memory * GIB
    return [Card(f"{vendor}-{n}", vendor, model, amount, index=n, minor=n, **more) for n in range(count)]


def test_cards_are_labelled_in_total_and_by_vendor():
    assert build_card_labels([*cards("nvidia", 2, "NVIDIA H200", 141), *cards("amd", 1, "MI300X", 192)], PROFILES) == {
        "accelkit.io/cards.count": "3",
        "accelkit.io/cards.memory": "474",
        "accelkit.io/cards.amd.count": "1",
        "accelkit.io/cards.amd.model": "MI300X",
        "accelkit.io/cards.amd.memory": "196608",
        "amd.com/gpu.product-name": "MI300X",
        "amd.com/gpu.vram": "192G",
        "accelkit.io/cards.nvidia.count": "2",
        "accelkit.io/cards.nvidia.model": "NVIDIA-H200",
        "accelkit.io/cards.nvidia.memory": "144384",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "nvidia.com/gpu.memory": "144384",
    }


def test_memory_label_is_omitted_if_memory_of_a_card_is_unknown():
    found = build_card_labels([*cards("nvidia", 1, "H200"), *cards("nvidia", 1, "H200", None)], PROFILES)
    assert not [key for key in found if key.endswith("memory")]


def test_intel_cards_are_labelled_with_numbers_and_numa_nodes():
    one, two = cards("intel", 2, "Max 1550", numa=0), cards("intel", 4, "Max 1550", numa=1)[2:]
    found = build_card_labels([*one, *two], PROFILES)
    assert found["gpu.intel.com/cards"] == "card0.card1.card2.card3"
    assert found["gpu.intel.com/gpu-numbers"] == "0.1.2.3"
    assert found["gpu.intel.com/numa-gpu-map"] == "0-0.1_1-2.3"


def test_cards_without_known_numbers_have_no_number_labels():
    unnumbered = [Card("a", "intel", "Max 1550", 16 * GIB, numa=0)]
    assert not [key for key in build_card_labels(unnumbered, PROFILES) if key.startswith("gpu.intel.com/")]


def test_vendor_without_profile_has_only_accelkit_labels():
    assert set(build_card_labels(cards("new", 1, "X"), PROFILES)) == {
        "accelkit.io/cards.count",
        "accelkit.io/cards.memory",
        "accelkit.io/cards.new.count",
        "accelkit.io/cards.new.model",
        "accelkit.io/cards.new.memory",
    }


def test_node_without_cards_has_no_card_labels():
    assert build_card_labels([], PROFILES) == {}


@given(st.text(alphabet="0123456789.", min_size=1, max_size=400))
def test_parts_of_split_label_value_restore_value(text):
    parts = split_value("gpu.intel.com/gpu-numbers", text)
    assert all(len(part) <= 63 for part in parts.values())
    first, *others = parts.values()
    assert first + "".join(part.removeprefix("Z") for part in others) == text
    assert list(parts)[1:] == [f"gpu.intel.com/gpu-numbers{number}" for number in range(2, len(parts) + 1)]
