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


def test_the_record_of_labels_is_read_with_their_values():
    assert LABELS_ANNOTATION == "accelkit.io/labels"
    assert read_label_record(node('{"a": "1", "b": ""}')) == {"a": "1", "b": ""}


@pytest.mark.parametrize("record", [None, "", "{}", "nonsense", "[]", '{"a": 1}', '{"a":' + "[" * 90_000])
def test_a_record_that_cannot_be_read_names_no_label(record):
    assert read_label_record(node(record)) == {}
    assert find_owned_labels(node(record, {"a": "1"})) == {}


def test_labels_are_ours_as_long_as_they_are_as_we_wrote_them():
    record = '{"a": "1", "b": "2", "c": "3"}'
    assert find_owned_labels(node(record, {"a": "1", "b": "other", "d": "4"})) == {"a": "1"}
    assert find_owned_labels(node(record)) == {}


def test_observed_allocations_lie_where_audits_look():
    assert ALLOCATIONS_KEY == "allocations.json"
    assert ALLOCATIONS_LABELS == {
        "app.kubernetes.io/part-of": "accelkit",
        "app.kubernetes.io/component": "allocations",
    }


def test_observed_allocations_read_back_as_they_were_written():
    pods = (HeldPod("d", "p", {"c": HeldDevices({"a": 4}, ("b",)), "e": HeldDevices()}, "mps"),)
    found = Allocations("n", pods, (StrangeProcess("a", 7, "python", 16), StrangeProcess("a", 8, "x")))
    assert decode_allocations(encode_allocations(found)) == found


def test_observed_allocations_leave_out_what_is_not_there():
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
def test_allocations_of_another_kind_are_refused(text, sentence):
    with pytest.raises(AssignmentError, match=sentence):
        decode_allocations(text)
