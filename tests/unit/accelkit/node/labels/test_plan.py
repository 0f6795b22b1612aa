from hypothesis import given
from hypothesis import strategies as st

from accelkit.node.labels.plan import DebouncedLabels, plan

LABELS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("12"), max_size=6)


def applied(present, changes):
    return {key: value for key, value in {**present, **changes.write}.items() if key not in changes.delete}


def test_desired_label_is_written_if_absent():
    changes = plan({"a": "1"}, {"x": "y"}, {})
    assert (changes.write, changes.delete, changes.record) == ({"a": "1"}, frozenset(), {"a": "1"})


def test_label_of_another_client_is_not_changed():
    changes = plan({"a": "1"}, {"a": "2"}, {})
    assert (changes.write, changes.record) == ({}, {})


def test_owned_label_that_is_not_desired_is_deleted():
    changes = plan({}, {"a": "1"}, {"a": "1"})
    assert (changes.delete, changes.record) == ({"a"}, {})


def test_owned_label_changed_by_another_client_is_lost():
    changes = plan({"a": "1"}, {"a": "2"}, {"a": "1"})
    assert (changes.write, changes.delete, changes.record, changes.lost) == ({}, frozenset(), {}, {"a"})


def test_outdated_value_is_not_lost_if_a_service_writes_labels():
    changes = plan({"a": "2"}, {"a": "1"}, {"a": "2"}, by_others=False)
    assert (changes.record, changes.lost) == ({"a": "2"}, frozenset())


def test_record_of_missing_label_is_discarded():
    changes = plan({}, {}, {"a": "1"})
    assert (changes.delete, changes.record) == (frozenset(), {})


@given(LABELS, st.lists(LABELS, max_size=4))
def test_original_labels_are_restored_after_owned_labels_are_deleted(before, looks):
    present, record = dict(before), {}
    for desired in [*looks, {}]:
        changes = plan(desired, present, record)
        present, record = applied(present, changes), dict(changes.record)
        again = plan(desired, present, record)
        assert (again.write, again.delete) == ({}, frozenset())
    assert (present, record) == (before, {})


def test_label_is_removed_after_absence_in_three_complete_reads():
    labels = DebouncedLabels()
    labels.update({"a": "1", "b": "1"})
    assert labels.update({"b": "2"}) == {"a": "1", "b": "2"}
    assert labels.update(None) == {"a": "1", "b": "2"}
    assert labels.update({}) == {"a": "1", "b": "2"}
    assert labels.update({"b": "2"}) == {"b": "2"}
    assert labels.update({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
