import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.filter import (
    autoscaler_hints,
    constraints_problems,
    machine_sets,
    security_constraints,
)

WORKLOAD = {
    "kind": "Deployment",
    "metadata": {"name": "w", "namespace": "n"},
    "spec": {"template": {"spec": {"serviceAccountName": "a", "containers": [{"name": "c"}]}}},
}
BROKEN = {**WORKLOAD, "spec": {"template": {"spec": {"containers": "c"}}}}
SOURCE = {
    "metadata": {"name": "s", "namespace": "m"},
    "spec": {"selector": {}, "template": {"metadata": {}, "spec": {}}},
}


def test_security_constraints_precede_workloads():
    needed, workload = security_constraints.security_constraints([WORKLOAD])
    assert (needed["metadata"]["name"], workload) == ("n.a", WORKLOAD)
    assert constraints_problems.constraints_problems([WORKLOAD], [needed]) == []
    assert "is missing" in constraints_problems.constraints_problems([WORKLOAD], [])[0]
    filling, *_others = security_constraints.security_constraints([WORKLOAD], created_in="f", labels={"a": "b"})
    assert filling["metadata"] == {"name": "f.default", "labels": {"a": "b"}}


def test_machine_sets_are_created_from_source():
    [made] = machine_sets.machine_sets([{"name": "t", "source": "s"}], [SOURCE], {"a": "b"})
    assert made["metadata"]["name"] == "t"


def test_autoscaler_hints_are_returned():
    hints = autoscaler_hints.autoscaler_hints({"capacity": {"cards": 1}}, "aws")
    assert hints == {"k8s.io/cluster-autoscaler/node-template/resources/accelkit.io/cards": "1"}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: security_constraints.security_constraints([BROKEN]), "cannot read the pod specification"),
        (
            lambda: constraints_problems.constraints_problems([BROKEN], [needed_of_default()]),
            "cannot read the pod specification",
        ),
        (
            lambda: machine_sets.machine_sets([{"name": "t", "source": "x"}], [SOURCE], {}),
            "no MachineSet has the name x",
        ),
        (
            lambda: autoscaler_hints.autoscaler_hints({}, "other"),
            "other is not a supported autoscaler; choose one of aws, azure",
        ),
        (lambda: autoscaler_hints.autoscaler_hints({"label": {}}, "aws"), "unknown field `label`"),
    ],
)
def test_invalid_input_raises_filter_error_with_one_sentence(wrong, told):
    with pytest.raises(AnsibleFilterError, match=told):
        wrong()


def needed_of_default():
    [needed, _binding] = security_constraints.security_constraints(
        [{**WORKLOAD, "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}]
    )
    return needed
