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


def test_labels_of_our_prefix_go_without_a_record():
    assert removable({"accelkit.io/cards.stolen": "x", "accelkit.io/other": "y"}) == {"accelkit.io/cards.stolen"}


@pytest.mark.parametrize("key", [PCI, "nvidia.com/gpu.count", "gpu.intel.com/numa-gpu-map3"])
def test_a_label_that_only_the_agent_can_have_written_goes_without_a_record(key):
    assert removable({key: "x"}, foreign="") == {key}
    # It was set before the node was shared, or may have been.
    assert removable({key: "x"}, foreign=f"other,{key}") == set()
    assert removable({key: "x"}) == set()


@pytest.mark.parametrize("nfd", ["pci-10de.present,cpu-cpuid.AVX", PCI])
def test_a_label_of_node_feature_discovery_stays(nfd):
    assert removable({PCI: "true"}, foreign="", nfd=nfd) == set()


def test_a_recorded_label_goes_unless_its_value_has_changed():
    assert removable({PCI: "true"}, {PCI: "true"}) == {PCI}
    assert removable({PCI: "other"}, {PCI: "true"}, foreign="") == set()


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "node-role.kubernetes.io/control-plane", "example.com/pool"])
def test_a_forged_record_takes_no_label_that_an_agent_cannot_write(key):
    assert removable({key: "x"}, {key: "x"}, foreign="") == set()


def test_what_others_had_set_is_noted_when_the_node_is_shared_first():
    labels = {PCI: "true", "nvidia.com/gpu.count": "2", "accelkit.io/cards.count": "1", "zone": "a"}
    assert find_foreign_labels(node(labels, {"nvidia.com/gpu.count": "2"})) == PCI
    owned = OwnedMetadata(load_dialect("native"))
    assert owned.find_missing(node(labels))["annotations"] == {FOREIGN_LABELS_ANNOTATION: f"{PCI},nvidia.com/gpu.count"}
    assert "annotations" not in owned.find_missing(node(labels, **{"accelkit.io/foreign-labels": ""}))
    assert owned.find_missing(node({**labels, "accelkit.io/share": "true"})) == {}


def test_what_an_agents_token_can_annotate_goes():
    found = OwnedMetadata(load_dialect("native")).build_removal(node({}, **{"accelkit.io/mended": "x"}))
    assert found["annotations"] == {"accelkit.io/mended": None}
