import msgspec
import pytest

from accelkit.extender.groups.group_index import GroupIndex, GroupSizeError
from accelkit.extender.groups.membership import SIZE_KEY, Convention, GroupKey, read_group, trim_member
from accelkit.extender.groups.objects import CoschedulingGroup, WorkloadGroup
from accelkit.kube.views.scheduling import SchedulingPod

COSCHEDULING, NAME = "scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name"
OBJECT = GroupKey("d", "g", Convention.COSCHEDULING)


def pod(name="p", *, labels=None, annotations=None, spec=None, phase=""):
    metadata = {"name": name, "namespace": "d", "uid": name, "labels": labels, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": spec or {}, "status": {"phase": phase}}, SchedulingPod)


def roster_of(*pods):
    group_index = GroupIndex()
    group_index.replace(pods)
    return group_index


def size(group_index, uid="p"):
    return group_index.read_size(group_index.find(uid))


def test_pod_field_precedes_labels_and_newer_label_precedes_older_label():
    labels = {COSCHEDULING: "b", NAME: "c"}
    field = {"schedulingGroup": {"podGroupName": "a"}}
    assert read_group(pod(labels=labels, spec=field)) == GroupKey("d", "a", Convention.WORKLOAD)
    assert read_group(pod(labels=labels, spec={"schedulingGroup": {}})) == GroupKey("d", "b", Convention.COSCHEDULING)
    assert read_group(pod(labels={NAME: "c"})) == GroupKey("d", "c", Convention.LABELS)
    assert read_group(pod(labels={NAME: "", "app": "x"})) is None


SPEC = {
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"a": "b"},
    "schedulingGates": [{"name": "x"}, {"name": "accelkit.io/pod-group"}],
    "affinity": {},
}


def kept(spec):
    return spec.tolerations, spec.node_selector, spec.scheduling_gates, spec.affinity


def test_trim_removes_fields_that_group_index_does_not_read():
    other = pod(labels={"app": "x"}, spec=SPEC)
    assert trim_member(other) is None
    assert (kept(other.spec), other.spec.conditions) == ((None,) * 4, None)
    member = pod(labels={"app": "x", NAME: "g"}, annotations={SIZE_KEY: "2", "long": "text"}, spec=SPEC)
    untrimmed = roster_of(member).find("p").waiting
    assert trim_member(member) == ({NAME: "g"}, {SIZE_KEY: "2"})
    # Of conditions, what was made of them; it says the same.
    assert kept(member.spec) == (None,) * 4
    assert roster_of(member).find("p").waiting == untrimmed
    assert (untrimmed["p"].place, untrimmed["p"].kept) == (1, True)
    assert b'"a":"b"' in untrimmed["p"].rules


@pytest.mark.parametrize("ended", [{"spec": {**SPEC, "nodeName": "n"}}, {"spec": SPEC, "phase": "Succeeded"}])
def test_trim_removes_rules_and_conditions_of_members_that_do_not_wait(ended):
    member = pod(labels={NAME: "g"}, **ended)
    assert trim_member(member) is not None
    assert (kept(member.spec), member.spec.conditions) == ((None,) * 4, None)
    assert roster_of(member).find("p").done == {"p"}


@pytest.mark.parametrize("count", [1_000, 30_000])
def test_stored_data_of_member_is_bounded(count):
    terms = [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["x"]}]}] * count
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    gates = [{"name": f"example.org/{number}"} for number in range(count)]
    spec = {**SPEC, "affinity": {"nodeAffinity": required}, "schedulingGates": gates}
    for trimmed in (True, False):
        member = pod(labels={NAME: "g"}, annotations={SIZE_KEY: "9" * count}, spec=spec)
        if trimmed:
            _, annotations = trim_member(member)
            assert len(annotations[SIZE_KEY]) <= 20
        one = roster_of(member).find("p").waiting["p"]
        assert len(msgspec.json.encode((one.place, one.kept, one.stated, one.rules))) < 100


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_group_size_is_read_from_pods_without_pod_group_object(where):
    said = {"labels": {NAME: "g"}, "annotations": {}}
    said[where] = said[where] | {SIZE_KEY: "3"}
    assert size(roster_of(pod(**said))) == 3


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²", "100000", "9" * 5000])
def test_invalid_group_size_is_reported_with_pod(text):
    with pytest.raises(GroupSizeError, match="of pod d/p is not a valid group size; set a whole number from 1 to"):
        size(roster_of(pod(labels={NAME: "g", SIZE_KEY: text})))


def test_different_group_sizes_are_reported_with_both_pods():
    group_index = roster_of(pod("p", labels={NAME: "g", SIZE_KEY: "3"}), pod("q", labels={NAME: "g", SIZE_KEY: "4"}))
    with pytest.raises(GroupSizeError, match="state different sizes: p has 3, q has 4; set the same"):
        size(group_index)
    group_index.take_event("DELETED", pod("q", labels={NAME: "g", SIZE_KEY: "4"}))
    assert size(group_index) == 3


def test_unknown_group_size_is_reported():
    with pytest.raises(GroupSizeError, match="the size of group d/g is unknown; create its PodGroup"):
        size(roster_of(pod(labels={COSCHEDULING: "g"})))
    field = {"schedulingGroup": {"podGroupName": "g"}}
    with pytest.raises(GroupSizeError, match=r"the PodGroup d/g of scheduling\.k8s\.io does not exist; create it"):
        size(roster_of(pod(labels={SIZE_KEY: "2"}, spec=field)))


def test_pod_group_object_overrides_sizes_of_pods():
    group_index = roster_of(pod(labels={COSCHEDULING: "g", SIZE_KEY: "1"}))
    group_index.keep_sizes(Convention.COSCHEDULING, {OBJECT: 4})
    assert size(group_index) == 4
    group_index.put_size(OBJECT, None)
    with pytest.raises(GroupSizeError, match=r"the PodGroup d/g of scheduling\.x-k8s\.io is not a valid group size"):
        size(group_index)
    # A list of another kind is not about it.
    group_index.keep_sizes(Convention.WORKLOAD, {})
    with pytest.raises(GroupSizeError, match="is not a valid group size"):
        size(group_index)
    group_index.keep_sizes(Convention.COSCHEDULING, {})
    assert size(group_index) == 1


def test_sizes_of_both_pod_group_kinds_are_decoded():
    mine = {"metadata": {"name": "g"}, "spec": {"minMember": 5}}
    assert msgspec.convert(mine, CoschedulingGroup).size == 5
    for policy, expected in (({"gang": {"minCount": 6}}, 6), ({"basic": {}}, 1), ({"gang": {}}, None)):
        theirs = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}
        assert msgspec.convert(theirs, WorkloadGroup).size == expected


def test_bound_and_succeeded_pods_count_as_members_but_failed_pods_do_not():
    labels = {NAME: "g"}
    pods = [
        pod("waits", labels=labels),
        pod("bound", labels=labels, spec={"nodeName": "n"}),
        pod("ended", labels=labels, phase="Succeeded"),
        pod("failed", labels=labels, phase="Failed"),
    ]
    group_index = roster_of(*pods)
    group = group_index.find("waits")
    assert (set(group.waiting), group.done) == ({"waits"}, {"bound", "ended"})
    assert group_index.find("failed") is None
    version = group.version
    # What changes nothing for the group is no change.
    assert group_index.take_event("MODIFIED", pods[0]) is None
    assert group_index.take_event("MODIFIED", pods[1]) is None
    assert group.version == version
    assert group_index.take_event("MODIFIED", pod("waits")) == group.key
    assert (group.waiting, group_index.find("waits")) == ({}, None)


def test_empty_group_is_discarded_and_relisted_group_receives_new_version():
    first = pod(labels={NAME: "g"})
    group_index = roster_of(first)
    before = group_index.find("p").version
    group_index.replace([first])
    assert group_index.find("p").version > before
    assert [str(group.key) for group in group_index.list_waiting()] == ["d/g"]
    group_index.take_event("DELETED", first)
    assert group_index.list_waiting() == []
