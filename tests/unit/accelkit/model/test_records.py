"""Records that our own processes leave on nodes and in ConfigMaps."""

import json

import pytest

from accelkit.errors import AssignmentError
from accelkit.model.keys import LABELS_ANNOTATION
from accelkit.model.label_record import find_owned_labels, read_label_record
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.observed_allocations import (
    ALLOCATIONS_KEY,
    ALLOCATIONS_LABELS,
    Allocations,
    HeldDevices,
    HeldPod,
    StrangeProcess,
    decode_allocations,
    encode_allocations,
)
from accelkit.model.pod import Node


def node(record=None, labels=None):
    return Node(ObjectMeta("n", labels=labels, annotations=None if record is None else {"accelkit.io/labels": record}))


def test_label_record_is_read_with_values():
    assert LABELS_ANNOTATION == "accelkit.io/labels"
    assert read_label_record(node('{"a": "1", "b": ""}')) == {"a": "1", "b": ""}


@pytest.mark.parametrize("record", [None, "", "{}", "nonsense", "[]", '{"a": 1}', '{"a":' + "[" * 90_000])
def test_unreadable_label_record_contains_no_labels(record):
    assert read_label_record(node(record)) == {}
    assert find_owned_labels(node(record, {"a": "1"})) == {}


def test_only_labels_with_recorded_values_are_owned():
    record = '{"a": "1", "b": "2", "c": "3"}'
    assert find_owned_labels(node(record, {"a": "1", "b": "other", "d": "4"})) == {"a": "1"}
    assert find_owned_labels(node(record)) == {}


def test_key_and_labels_of_allocations_config_map_are_stable():
    assert ALLOCATIONS_KEY == "allocations.json"
    assert ALLOCATIONS_LABELS == {
        "app.kubernetes.io/part-of": "accelkit",
        "app.kubernetes.io/component": "allocations",
    }


def test_decoded_allocations_equal_encoded_allocations():
    pods = (HeldPod("d", "p", {"c": HeldDevices({"a": 4}, ("b",)), "e": HeldDevices()}, "mps"),)
    found = Allocations("n", pods, (StrangeProcess("a", 7, "python", 16), StrangeProcess("a", 8, "x")))
    assert decode_allocations(encode_allocations(found)) == found


def test_encoded_allocations_omit_empty_fields():
    written = json.loads(encode_allocations(Allocations("n", (HeldPod("d", "p", {"c": HeldDevices()}),))))
    assert written == {
        "node": "n",
        "pods": [{"namespace": "d", "name": "p", "containers": {"c": {}}}],
        "processes": None,
        "version": 1,
        "left_out": 0,
    }
    (pod,) = decode_allocations(json.dumps(written)).pods
    assert pod == HeldPod("d", "p", {"c": HeldDevices({}, ())}, enforced_by="")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"version": 2, "node": "n", "pods": []}', "observed allocations have version 2"),
        ('{"version": 1, "node": "n"}', "cannot read the observed allocations"),
        ('{"version": 1, "later": ' + "[" * 90_000, "cannot read the observed allocations"),
        ("", "cannot read the observed allocations"),
    ],
    ids=lambda text: text[:40],
)
def test_unsupported_or_invalid_allocations_are_refused(text, sentence):
    with pytest.raises(AssignmentError, match=sentence):
        decode_allocations(text)
