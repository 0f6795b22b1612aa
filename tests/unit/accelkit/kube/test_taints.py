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
def test_which_taints_a_toleration_tolerates(toleration, tolerates):
    assert tolerates_all([toleration], [TAINT]) is tolerates


def test_all_taints_have_to_be_borne_and_none_needs_no_toleration():
    assert not tolerates_all([Toleration("gpu", "Exists")], [TAINT, Taint("other", effect="NoExecute")])
    assert tolerates_all([], [])


def test_taints_that_keep_out_and_a_cordon_which_is_one():
    taints = [TAINT, Taint("soft", effect="PreferNoSchedule")]
    assert TaintedSpec(taints=taints).list_taints() == [TAINT]
    cordon = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")
    assert TaintedSpec(unschedulable=True).list_taints() == [cordon]
    assert TaintedSpec(unschedulable=True, taints=[cordon]).list_taints() == [cordon]


def test_all_labels_of_a_selector_count():
    assert has_labels({"x": "1", "y": "2"}, {"x": "1"})
    assert not has_labels({"x": "1"}, {"x": "1", "y": "2"})
