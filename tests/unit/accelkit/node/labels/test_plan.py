from hypothesis import given
from hypothesis import strategies as st

from accelkit.node.labels.plan import DebouncedLabels, plan

LABELS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("12"), max_size=6)


def applied(present, changes):
    return {key: value for key, value in {**present, **changes.write}.items() if key not in changes.delete}


def test_what_is_wanted_and_free_is_written():
    changes = plan({"a": "1"}, {"x": "y"}, {})
    assert (changes.write, changes.delete, changes.record) == ({"a": "1"}, frozenset(), {"a": "1"})


def test_what_somebody_else_wrote_is_left_alone():
    changes = plan({"a": "1"}, {"a": "2"}, {})
    assert (changes.write, changes.record) == ({}, {})


def test_ours_that_is_not_wanted_any_more_is_taken_away():
    changes = plan({}, {"a": "1"}, {"a": "1"})
    assert (changes.delete, changes.record) == ({"a"}, {})


def test_ours_that_somebody_changed_is_theirs():
    changes = plan({"a": "1"}, {"a": "2"}, {"a": "1"})
    assert (changes.write, changes.delete, changes.record, changes.lost) == ({}, frozenset(), {}, {"a"})


def test_a_service_that_writes_for_us_may_be_late():
    changes = plan({"a": "2"}, {"a": "1"}, {"a": "2"}, by_others=False)
    assert (changes.record, changes.lost) == ({"a": "2"}, frozenset())


def test_a_record_of_a_label_that_is_gone_does_no_harm():
    changes = plan({}, {}, {"a": "1"})
    assert (changes.delete, changes.record) == (frozenset(), {})


@given(LABELS, st.lists(LABELS, max_size=4))
def test_what_was_there_before_is_there_after_our_labels_are_taken_away(before, looks):
    present, record = dict(before), {}
    for desired in [*looks, {}]:
        changes = plan(desired, present, record)
        present, record = applied(present, changes), dict(changes.record)
        again = plan(desired, present, record)
        assert (again.write, again.delete) == ({}, frozenset())
    assert (present, record) == (before, {})


def test_a_label_is_gone_after_three_whole_looks_without_it():
    labels = DebouncedLabels()
    labels.update({"a": "1", "b": "1"})
    assert labels.update({"b": "2"}) == {"a": "1", "b": "2"}
    assert labels.update(None) == {"a": "1", "b": "2"}
    assert labels.update({}) == {"a": "1", "b": "2"}
    assert labels.update({"b": "2"}) == {"b": "2"}
    assert labels.update({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
