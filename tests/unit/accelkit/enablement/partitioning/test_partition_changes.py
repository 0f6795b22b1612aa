"""Changes of nodes, and that what they do is taken back exactly."""

import json

import msgspec
import pytest
from fake_api.patches import merge
from hypothesis import given, settings
from hypothesis import strategies as st

from accelkit.enablement.partitioning.changes import TaintedNode, plan_change
from accelkit.enablement.partitioning.desired_nodes import DesiredNode
from accelkit.model.keys import PARTITIONING_ANNOTATION, POOL_LABEL, ROLE_LABEL

MEMORY = "accelkit.io/memory"
OURS = {"key": MEMORY, "value": "accelkit", "effect": "NoSchedule"}
EVICTING = {"key": "x", "value": "", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
WISH = DesiredNode({ROLE_LABEL: "training"}, (MEMORY,))


def node(*, labels=None, taints=None, record=None):
    annotations = {"other": "kept", **({PARTITIONING_ANNOTATION: record} if record is not None else {})}
    metadata = {"name": "a", "resourceVersion": "7", "labels": labels or {}, "annotations": annotations}
    return {"metadata": metadata, "spec": {"taints": taints} if taints else {}}


def plan(raw, desired=None):
    return plan_change(msgspec.convert(raw, TaintedNode), desired or DesiredNode())


def apply(raw, desired=None):
    patch = plan(raw, desired).patch
    patch.get("metadata", {}).pop("resourceVersion", None)
    return merge(raw, patch)


def test_change_records_written_labels_and_taints():
    change = plan(node(taints=[EVICTING]), WISH)
    assert change.patch["metadata"]["resourceVersion"] == "7"
    assert change.patch["metadata"]["labels"] == {ROLE_LABEL: "training"}
    # Others' taints keep all of their fields.
    assert change.patch["spec"]["taints"] == [EVICTING, OURS]
    assert json.loads(change.patch["metadata"]["annotations"][PARTITIONING_ANNOTATION]) == {
        "version": 1,
        "labels": {ROLE_LABEL: "training"},
        "taints": [MEMORY],
    }
    assert change.before == ()
    assert change.after == (f"label {ROLE_LABEL}=training", f"taint {MEMORY}=accelkit:NoSchedule")


def test_second_run_changes_nothing():
    assert plan(apply(node(), WISH), WISH).patch == {}


def test_taints_never_use_no_execute_effect():
    changed = apply(node(), DesiredNode(taints=(MEMORY, "accelkit.io/cards")))
    assert {each["effect"] for each in changed["spec"]["taints"]} == {"NoSchedule"}


@pytest.mark.parametrize("theirs", [{**OURS, "value": "theirs"}, {"key": MEMORY, "effect": "NoSchedule"}])
def test_equivalent_foreign_taint_is_used_and_kept(theirs):
    before = node(taints=[theirs])
    assert plan(before, DesiredNode(taints=(MEMORY,))).patch == {}
    changed = apply(before, WISH)
    assert changed["spec"]["taints"] == [theirs]
    assert apply(changed) == before


def test_foreign_taint_with_another_effect_is_kept_beside_owned_taint():
    theirs = {**OURS, "effect": "PreferNoSchedule"}
    changed = apply(node(taints=[theirs]), WISH)
    assert changed["spec"]["taints"] == [theirs, OURS]
    assert apply(changed) == node(taints=[theirs])


def test_unrecorded_identical_taint_is_kept():
    before = node(taints=[OURS])
    assert apply(apply(before, WISH)) == before


def test_foreign_label_is_never_overwritten():
    change = plan(node(labels={ROLE_LABEL: "mine"}), WISH)
    assert tuple(map(str, change.conflicts)) == ("LabelOfAnother: node a has accelkit.io/role=mine, not training",)
    assert ROLE_LABEL not in change.patch["metadata"].get("labels", {})
    before = node(labels={ROLE_LABEL: "training"})
    assert plan(before, WISH).conflicts == ()
    assert apply(apply(before, WISH)) == before


def test_labels_and_taints_changed_by_another_client_are_kept_on_removal():
    changed = apply(node(), WISH)
    changed["metadata"]["labels"][ROLE_LABEL] = "theirs"
    changed["spec"]["taints"] = [{**OURS, "value": "theirs"}]
    restored = apply(changed)
    assert restored["metadata"]["labels"] == {ROLE_LABEL: "theirs"}
    assert restored["spec"]["taints"] == [{**OURS, "value": "theirs"}]
    assert restored["metadata"]["annotations"] == {"other": "kept"}


def test_new_settings_replace_former_settings():
    changed = apply(apply(node(), WISH), DesiredNode({POOL_LABEL: "big", ROLE_LABEL: "infra"}, ("accelkit.io/cards",)))
    assert changed["metadata"]["labels"] == {POOL_LABEL: "big", ROLE_LABEL: "infra"}
    assert [each["key"] for each in changed["spec"]["taints"]] == ["accelkit.io/cards"]


@pytest.mark.parametrize("record", ["{", '{"version": 2}', "[" * 100_000])
def test_unreadable_record_is_not_modified(record):
    before = node(record=record, taints=[OURS])
    for desired in (DesiredNode(), WISH):
        change = plan(before, desired)
        assert change.patch == {}
        assert str(change.conflicts[0]).startswith("RecordUnreadable: accelkit.io/partitioning of node a")


def test_removal_ignores_recorded_keys_that_accelkit_never_writes():
    labels = {"zone": "a"}
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    record = json.dumps({"version": 1, "labels": labels, "taints": [taint["key"]]})
    restored = apply(node(labels=labels, taints=[taint], record=record))
    assert restored == node(labels=labels, taints=[taint])


_KEYS = st.sampled_from([MEMORY, "accelkit.io/cards", "x"])
_TAINTS = st.lists(
    st.builds(
        lambda key, value, effect: {"key": key, "value": value, "effect": effect},
        _KEYS,
        st.sampled_from(["", "accelkit"]),
        st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    ),
    max_size=4,
    # As the API server: one taint for each key and effect.
    unique_by=lambda each: (each["key"], each["effect"]),
)
_LABELS = st.dictionaries(st.sampled_from(["zone", POOL_LABEL]), st.sampled_from(["a", "b"]))
_WISHES = st.builds(
    lambda roles, keys: DesiredNode(roles, tuple(sorted(keys))),
    st.dictionaries(st.just(ROLE_LABEL), st.sampled_from(["training", "infra"])),
    st.sets(_KEYS),
)


@settings(max_examples=150, deadline=None)
@given(_LABELS, _TAINTS, st.lists(_WISHES, max_size=3))
def test_removal_restores_node_after_any_sequence_of_settings(labels, taints, desired_nodes):
    before = changed = node(labels=labels, taints=taints)
    for desired in desired_nodes:
        changed = apply(changed, desired)
        assert plan(changed, desired).patch == {}
    assert apply(changed) == before
