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


def test_node_must_match_all_selector_labels():
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
def test_required_affinity_operators_match_labels(expression, expected):
    nodes = node("a", {"x": "1"}), node("b", {"x": "2"}), node("c")
    assert allowed(affinity({"key": "x", **expression}), *nodes) == expected


def test_affinity_terms_are_alternatives_and_support_match_fields():
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
def test_node_with_untolerated_taint_is_excluded(toleration, tolerates):
    assert allowed({"tolerations": [toleration]}, node("a", taints=[TAINT])) == ({"a"} if tolerates else set())


def test_cordoned_node_is_excluded_and_prefer_no_schedule_is_ignored():
    soft = node("a", taints=[{**TAINT, "effect": "PreferNoSchedule"}])
    assert allowed({}, soft, node("b", unschedulable=True)) == {"a"}
    tolerates = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}
    assert allowed(tolerates, node("b", unschedulable=True)) == {"b"}


def test_node_events_update_allowed_nodes():
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
def test_pod_with_too_many_rules_has_no_allowed_node(spec):
    assert encode_rules(msgspec.convert(spec, SchedulingPodSpec)) == TOO_MANY
    assert allowed(spec, node("a")) == set()


def test_pod_with_maximum_number_of_rules_is_evaluated():
    spec = affinity(*expressions(MOST_REQUIREMENTS))
    assert allowed(spec, node("a"), node("b", {"k0": "1"})) == {"a"}


def test_affinity_terms_without_requirements_are_dropped():
    assert encode_rules(msgspec.convert(require([{}] * 100_000), SchedulingPodSpec)) == b"[{},[],[]]"


def test_identical_rules_of_pods_share_one_object():
    one, other = (encode_rules(msgspec.convert({"nodeSelector": {"x": "1"}}, SchedulingPodSpec)) for _ in range(2))
    assert one is other


def test_budget_is_charged_per_requirement_and_node():
    facts = SchedulingFacts()
    facts.replace([node("a"), node("b")])
    rules = encode_rules(msgspec.convert(affinity(*expressions(3)), SchedulingPodSpec))
    budget = Budget(10)
    assert facts.list_allowed(rules, budget) == {"a", "b"}
    assert budget.steps == 2
    # Of what cannot be paid for as a whole nothing is said, and nothing is taken.
    assert facts.list_allowed(rules, budget) is None
    assert budget.steps == 2
