import msgspec
import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kube.disruptions.budgets import (
    BUDGETS,
    MOST_IN_NAMESPACE,
    MOST_NAMESPACE_BYTES,
    MOST_SELECTOR_BYTES,
    DisruptionBudgets,
    WrittenBudget,
    read_disruption_budgets,
)
from accelkit.model.pod import PodRef

P, Q, R = (PodRef("d", name, name) for name in "pqr")
X = {"app": "x"}


def budget(selector, allowed=0, *, namespace="d", **status):
    item = {
        "metadata": {"name": "b", "namespace": namespace},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, **status},
    }
    return msgspec.json.decode(msgspec.json.encode(item), type=WrittenBudget)


@pytest.mark.parametrize(
    ("selector", "protects"),
    [
        ({"matchLabels": X}, True),
        ({"matchLabels": {"app": "y"}}, False),
        ({}, True),
        (None, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["x"]}]}, True),
        # Who is meant is not known, so nobody is evicted.
        ({"matchExpressions": [{"key": "app", "operator": "Later"}]}, True),
    ],
)
def test_budget_selector_matches_as_in_kubernetes(selector, protects):
    assert DisruptionBudgets([budget(selector)]).protects(P, X) == protects


def test_budget_protects_pod_in_its_namespace_without_allowed_disruption():
    assert not DisruptionBudgets([budget({}, namespace="e")]).protects(P, X)
    assert not DisruptionBudgets([budget({}, 1)]).protects(P, X)
    # It counts as disrupted already.
    assert not DisruptionBudgets([budget({}, disruptedPods={"p": "2026-01-01T00:00:00Z"})]).protects(P, X)
    assert DisruptionBudgets([budget({}, 1), budget({"matchLabels": X}, 1)]).protects(P, X)


def test_rule_text_names_budget():
    assert DisruptionBudgets([budget({})]).find_rule(P, X) == "PodDisruptionBudget b protects it"
    several = DisruptionBudgets([budget({}, 1), budget({"matchLabels": X}, 1)])
    assert several.find_rule(P, X) == "several PodDisruptionBudgets cover it, for example b and b"
    long = DisruptionBudgets([budget({"matchLabels": {"app": "x" * MOST_SELECTOR_BYTES}})])
    assert long.find_rule(P, X) == "the PodDisruptionBudgets of its namespace are too long to read"
    assert DisruptionBudgets([budget({}, 1)]).find_rule(P, X) == ""


def test_find_excess_returns_pods_beyond_allowed_disruptions():
    budgets = DisruptionBudgets([budget({"matchLabels": X}, 2)])
    assert budgets.find_excess([(P, X), (Q, {}), (R, X)]) == set()
    assert DisruptionBudgets([budget({"matchLabels": X}, 1)]).find_excess([(P, X), (Q, {}), (R, X)]) == {"r"}


async def test_unreadable_budget_raises_error():
    api = FakeApi()
    api.store(BUDGETS, {"metadata": {"name": "b", "namespace": "d"}, "spec": {"selector": 7}})
    with pytest.raises(ApiError, match="cannot read"):
        await read_disruption_budgets(api)


def no_one(size=100):
    """A selector of so many bytes that selects no pod of these tests."""
    values = ["x", ""]
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]}
    values[1] = "v" * (size - len(msgspec.json.encode(selector)))
    return selector


async def read(budgets):
    api = FakeApi()
    for number, (namespace, selector) in enumerate(budgets):
        metadata = {"name": f"b{number}", "namespace": namespace, "annotations": {"note": "n" * 1000}}
        api.store(BUDGETS, {"metadata": metadata, "spec": {"selector": selector}, "status": {"disruptionsAllowed": 1}})
    return await read_disruption_budgets(api)


@pytest.mark.parametrize(
    ("selectors", "protects"),
    [
        ([no_one(MOST_SELECTOR_BYTES)], False),
        ([no_one(MOST_SELECTOR_BYTES + 1)], True),
        # Whatever comes before or after it.
        ([no_one(), no_one(MOST_SELECTOR_BYTES + 1), no_one()], True),
        ([no_one()] * MOST_IN_NAMESPACE, False),
        ([no_one()] * (MOST_IN_NAMESPACE + 1), True),
        ([no_one(MOST_SELECTOR_BYTES)] * (MOST_NAMESPACE_BYTES // MOST_SELECTOR_BYTES), False),
        ([no_one(MOST_SELECTOR_BYTES)] * (MOST_NAMESPACE_BYTES // MOST_SELECTOR_BYTES) + [no_one()], True),
    ],
    ids=["long", "longer", "one longer", "many", "more", "all of them long", "longer together"],
)
async def test_oversized_budgets_protect_all_pods_of_their_namespace_only(selectors, protects):
    budgets = await read([*(("d", each) for each in selectors), ("e", no_one())])
    assert budgets.protects(P, X) == protects
    assert not budgets.protects(PodRef("e", "p", "in-e"), X)


def test_covering_budgets_of_pod_are_found_once_and_limited_to_two():
    budgets = DisruptionBudgets([budget({}, 1), budget({"matchLabels": X}, 1), *[budget({}, 1) for _ in range(50)]])
    asked = []

    class Labels(dict):
        def get(self, key, default=None):
            asked.append(key)
            return super().get(key, default)

    for _ in range(3):
        assert budgets.protects(P, Labels(X))
        assert budgets.find_excess([(P, Labels(X))]) == {"p"}
    assert asked == ["app"]
