import msgspec
import pytest
from support.pods import build_container, build_pod

from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod
from accelkit.vendors.counted_dialects import BoundPodReader, list_device_resources
from accelkit.vendors.dialects import load_dialect

NATIVE = load_dialect("native")
TEXT = encode_assignment(Assignment({"c": (Share("a", 4),)}))


def pod(*limits, assigned=False):
    containers = [build_container(each, f"c{n}") for n, each in enumerate(limits)]
    annotations = {ASSIGNMENT_ANNOTATION: TEXT} if assigned else {}
    return msgspec.convert(build_pod("p", *containers, metadata={"annotations": annotations}, nodeName="n"), Pod)


def read(reader, body):
    reader.trim(body)
    found = reader.read(body)
    return found.dialect.name if found is not None and found.requests_cards else None


@pytest.mark.parametrize(
    ("resource", "assigned", "extender", "agent"),
    [
        ("accelkit.io/memory", False, "native", "native"),
        ("enflame.com/gcu-memory", False, "gcushare", "gcushare"),
        ("aliyun.com/gpu-count", True, "aliyun", "aliyun"),
        # By these NVIDIA's and Intel's own plugins give cards, too.
        ("nvidia.com/gpu", False, None, None),
        ("nvidia.com/gpu", True, "kubegpu", "kubegpu"),
        ("gpu.intel.com/i915", False, None, None),
        ("gpu.intel.com/i915", True, "gas", None),
        ("cpu", True, None, None),
    ],
)
def test_assigned_pods_of_unused_dialects_are_counted(resource, assigned, extender, agent):
    assert read(BoundPodReader([NATIVE]), pod({resource: "1"}, assigned=assigned)) == extender
    assert read(BoundPodReader([NATIVE], advertised=True), pod({resource: "1"}, assigned=assigned)) == agent


def test_pod_with_dialect_in_use_is_read_only_in_dialects_in_use():
    found = BoundPodReader([NATIVE]).read(pod({"accelkit.io/memory": "1", "gpu.intel.com/i915": "1"}, assigned=True))
    assert found.dialects == (NATIVE,)


def test_memory_units_are_read_in_dialect_of_pod():
    reader = BoundPodReader([NATIVE])
    assert reader.read(pod({"enflame.com/gcu-memory": "3"})).read_memory_units() == {"c0": 3}


def test_device_resources_include_all_advertised_dialects():
    found = list_device_resources(NATIVE)
    assert found.memory[0] == "accelkit.io/memory"
    assert set(found.memory) == {"accelkit.io/memory", "enflame.com/gcu-memory", "aliyun.com/gpu-mem"}
    assert set(found.cards) == {"accelkit.io/cards", "enflame.com/gcu-count", "aliyun.com/gpu-count", "nvidia.com/gpu"}
    assert found.ambiguous == {"nvidia.com/gpu"}
    assert list_device_resources(load_dialect("kubegpu")).ambiguous == frozenset()
