import msgspec
import pytest

from accelkit.kube.scheduling.allowed_nodes import (
    MOST_BYTES,
    MOST_REQUIREMENTS,
    MOST_VALUES,
    TOO_MANY,
    SchedulingFacts,
    encode_rules,
)
from accelkit.kube.views.scheduling import SchedulingNode, SchedulingPodSpec
from accelkit.placement.budget import Budget

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def node(name, labels=None, *, taints=(), unschedulable=False):
    spec = {"taints": list(taints), "unschedulable": unschedulable}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "spec": spec}, SchedulingNode)


def allowed(spec, *nodes):
    facts = SchedulingFacts()
    facts.replace(nodes)
    return facts.list_allowed(encode_rules(msgspec.convert(spec, SchedulingPodSpec)))


def affinity(*expressions, fields=()):
    terms = [{"matchExpressions": list(expressions), "matchFields": list(fields)}]
    return require(terms)


def require(terms):
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def test_all_labels_of_the_selector_count():
    nodes = node("a", {"x": "1", "y": "2"}), node("b", {"x": "1"}), node("c")
    assert allowed({"nodeSelector": {"x": "1", "y": "2"}}, *nodes) == {"a"}
    assert allowed({}, *nodes) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"operator": "In", "values": ["1", "5"]}, {"a"}),
        ({"operator": "NotIn", "values": ["1"]}, {"b", "c"}),
        ({"operator": "Exists"}, {"a", "b"}),
        ({"operator": "DoesNotExist"}, {"c"}),
        ({"operator": "Gt", "values": ["1"]}, {"b"}),
        ({"operator": "Lt", "values": ["2"]}, {"a"}),
        ({"operator": "Gt", "values": []}, set()),
        ({"operator": "Near", "values": ["1"]}, set()),
    ],
)
def test_the_operators_of_required_affinity(expression, expected):
    nodes = node("a", {"x": "1"}), node("b", {"x": "2"}), node("c")
    assert allowed(affinity({"key": "x", **expression}), *nodes) == expected


def test_one_term_is_enough_an_empty_one_is_none_and_fields_name_the_node():
    nodes = node("a", {"x": "1"}), node("b", {"x": "2"})
    one, two = ({"matchExpressions": [{"key": "x", "operator": "In", "values": [each]}]} for each in "12")
    assert allowed(require([one, two]), *nodes) == {"a", "b"}
    assert allowed(require([{}]), *nodes) == set()
    assert allowed(require([]), *nodes) == set()
    assert allowed(affinity(fields=[{"key": "metadata.name", "operator": "In", "values": ["b"]}]), *nodes) == {"b"}


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"value": "yes"}, False),
    ],
)
def test_taints_exclude_pods_that_do_not_tolerate_them(toleration, tolerates):
    assert allowed({"tolerations": [toleration]}, node("a", taints=[TAINT])) == ({"a"} if tolerates else set())


def test_a_preference_keeps_nobody_out_and_a_cordon_everybody():
    soft = node("a", taints=[{**TAINT, "effect": "PreferNoSchedule"}])
    assert allowed({}, soft, node("b", unschedulable=True)) == {"a"}
    tolerates = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}
    assert allowed(tolerates, node("b", unschedulable=True)) == {"b"}


def test_changes_of_nodes_count():
    facts = SchedulingFacts()
    rules = encode_rules(msgspec.convert({"nodeSelector": {"x": "1"}}, SchedulingPodSpec))
    facts.take_event("ADDED", node("a", {"x": "1"}))
    assert facts.list_allowed(rules) == {"a"}
    facts.take_event("MODIFIED", node("a"))
    assert facts.list_allowed(rules) == set()
    facts.take_event("MODIFIED", node("a", {"x": "1"}))
    facts.take_event("DELETED", node("a"))
    assert facts.list_allowed(rules) == set()


def expressions(count, values=("1",), operator="NotIn"):
    return [{"key": f"k{number}", "operator": operator, "values": list(values)} for number in range(count)]


@pytest.mark.parametrize(
    "spec",
    [
        affinity(*expressions(MOST_REQUIREMENTS + 1)),
        require([{"matchExpressions": [each]} for each in expressions(MOST_REQUIREMENTS + 1)]),
        affinity(*expressions(1, [str(number) for number in range(MOST_VALUES + 1)])),
        affinity(*expressions(1, ["x" * MOST_BYTES])),
        {"nodeSelector": {str(number): "" for number in range(MOST_REQUIREMENTS + 1)}},
        {"tolerations": [{"operator": "Exists"}] * (MOST_REQUIREMENTS + 1)},
    ],
)
def test_a_pod_with_more_rules_than_are_read_may_have_no_node(spec):
    assert encode_rules(msgspec.convert(spec, SchedulingPodSpec)) == TOO_MANY
    assert allowed(spec, node("a")) == set()


def test_a_pod_may_have_rules_enough():
    spec = affinity(*expressions(MOST_REQUIREMENTS))
    assert allowed(spec, node("a"), node("b", {"k0": "1"})) == {"a"}


def test_terms_without_requirements_are_not_kept():
    assert encode_rules(msgspec.convert(require([{}] * 100_000), SchedulingPodSpec)) == b"[{},[],[]]"


def test_the_same_rules_of_many_pods_are_kept_once():
    one, other = (encode_rules(msgspec.convert({"nodeSelector": {"x": "1"}}, SchedulingPodSpec)) for _ in range(2))
    assert one is other


def test_each_requirement_is_paid_for_with_each_node():
    facts = SchedulingFacts()
    facts.replace([node("a"), node("b")])
    rules = encode_rules(msgspec.convert(affinity(*expressions(3)), SchedulingPodSpec))
    budget = Budget(10)
    assert facts.list_allowed(rules, budget) == {"a", "b"}
    assert budget.steps == 2
    # Of what cannot be paid for as a whole nothing is said, and nothing is taken.
    assert facts.list_allowed(rules, budget) is None
    assert budget.steps == 2
