import pytest

from accelkit.kube.scheduling.node_rules import has_labels, tolerates_all
from accelkit.kube.views.scheduling import Taint, TaintedSpec, Toleration

TAINT = Taint("gpu", "5", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("gpu", "Equal", "5"), True),
        (Toleration("gpu", "", "5", "NoSchedule"), True),
        (Toleration("gpu", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("gpu", "Equal", "6"), False),
        (Toleration("gpu", "Equal", "5", "NoExecute"), False),
        (Toleration("other", "Exists"), False),
        # An empty key with Equal is none that the API server takes.
        (Toleration("", "Equal", "5"), False),
        # Numbers are compared by kube-scheduler alone.
        (Toleration("gpu", "Gt", "5"), False),
        (Toleration("gpu", "Lt", "5"), False),
    ],
)
def test_toleration_matches_taint_by_key_operator_value_and_effect(toleration, tolerates):
    assert tolerates_all([toleration], [TAINT]) is tolerates


def test_all_taints_must_be_tolerated():
    assert not tolerates_all([Toleration("gpu", "Exists")], [TAINT, Taint("other", effect="NoExecute")])
    assert tolerates_all([], [])


def test_list_taints_includes_cordon_and_omits_prefer_no_schedule():
    taints = [TAINT, Taint("soft", effect="PreferNoSchedule")]
    assert TaintedSpec(taints=taints).list_taints() == [TAINT]
    cordon = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")
    assert TaintedSpec(unschedulable=True).list_taints() == [cordon]
    assert TaintedSpec(unschedulable=True, taints=[cordon]).list_taints() == [cordon]


def test_has_labels_requires_every_label():
    assert has_labels({"x": "1", "y": "2"}, {"x": "1"})
    assert not has_labels({"x": "1"}, {"x": "1", "y": "2"})
