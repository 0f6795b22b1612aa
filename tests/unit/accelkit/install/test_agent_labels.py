"""Which labels go when a node is no longer shared: those that an agent's token wrote, with and without a record."""

import msgspec
import pytest

from accelkit.install.agent_labels import find_foreign_labels, find_removable_labels
from accelkit.install.owned_metadata import OwnedMetadata
from accelkit.model.keys import FOREIGN_LABELS_ANNOTATION
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import Node
from accelkit.vendors.dialects import load_dialect

PCI = "feature.node.kubernetes.io/pci-10de.present"


def node(labels, record=None, **annotations):
    named = dict(annotations)
    if record is not None:
        named["accelkit.io/labels"] = msgspec.json.encode(record).decode()
    return Node(ObjectMeta("n", labels=labels, annotations=named))


def removable(labels, record=None, *, foreign=None, nfd=""):
    found = node(labels, record)
    if foreign is not None:
        found.metadata.annotations[FOREIGN_LABELS_ANNOTATION] = foreign
    if nfd:
        found.metadata.annotations["nfd.node.kubernetes.io/feature-labels"] = nfd
    return set(find_removable_labels(found))


def test_agent_label_with_accelkit_prefix_is_removed_without_record():
    assert removable({"accelkit.io/cards.stolen": "x", "accelkit.io/other": "y"}) == {"accelkit.io/cards.stolen"}


@pytest.mark.parametrize("key", [PCI, "nvidia.com/gpu.count", "gpu.intel.com/numa-gpu-map3"])
def test_label_that_only_the_agent_writes_is_removed_without_record(key):
    assert removable({key: "x"}, foreign="") == {key}
    # It was set before the node was shared, or may have been.
    assert removable({key: "x"}, foreign=f"other,{key}") == set()
    assert removable({key: "x"}) == set()


@pytest.mark.parametrize("nfd", ["pci-10de.present,cpu-cpuid.AVX", PCI])
def test_label_of_node_feature_discovery_is_kept(nfd):
    assert removable({PCI: "true"}, foreign="", nfd=nfd) == set()


def test_recorded_label_is_removed_unless_its_value_changed():
    assert removable({PCI: "true"}, {PCI: "true"}) == {PCI}
    assert removable({PCI: "other"}, {PCI: "true"}, foreign="") == set()


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "node-role.kubernetes.io/control-plane", "example.com/pool"])
def test_forged_record_does_not_remove_labels_outside_agent_permissions(key):
    assert removable({key: "x"}, {key: "x"}, foreign="") == set()


def test_foreign_labels_are_recorded_when_node_is_first_shared():
    labels = {PCI: "true", "nvidia.com/gpu.count": "2", "accelkit.io/cards.count": "1", "zone": "a"}
    assert find_foreign_labels(node(labels, {"nvidia.com/gpu.count": "2"})) == PCI
    owned = OwnedMetadata(load_dialect("native"))
    assert owned.find_missing(node(labels))["annotations"] == {FOREIGN_LABELS_ANNOTATION: f"{PCI},nvidia.com/gpu.count"}
    assert "annotations" not in owned.find_missing(node(labels, **{"accelkit.io/foreign-labels": ""}))
    assert owned.find_missing(node({**labels, "accelkit.io/share": "true"})) == {}


def test_annotations_writable_by_agent_are_removed():
    found = OwnedMetadata(load_dialect("native")).build_removal(node({}, **{"accelkit.io/mended": "x"}))
    assert found["annotations"] == {"accelkit.io/mended": None}
