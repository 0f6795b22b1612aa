from __future__ import annotations

import msgspec
import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kube.disruptions.budgets import (
    BUDGETS,
    DisruptionBudget,
    DisruptionBudgets,
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
    return msgspec.convert(item, DisruptionBudget)


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
def test_selectors_select_as_kubernetes_does(selector, protects):
    assert DisruptionBudgets([budget(selector)]).protects(P, X) == protects


def test_a_budget_counts_in_its_namespace_alone_and_one_that_allows_an_eviction_protects_nobody():
    assert not DisruptionBudgets([budget({}, namespace="e")]).protects(P, X)
    assert not DisruptionBudgets([budget({}, 1)]).protects(P, X)
    # It counts as disrupted already.
    assert not DisruptionBudgets([budget({}, disruptedPods={"p": "2026-01-01T00:00:00Z"})]).protects(P, X)
    assert DisruptionBudgets([budget({}, 1), budget({"matchLabels": X}, 1)]).protects(P, X)


def test_of_several_pods_those_too_many_are_named():
    budgets = DisruptionBudgets([budget({"matchLabels": X}, 2)])
    assert budgets.find_excess([(P, X), (Q, {}), (R, X)]) == set()
    assert DisruptionBudgets([budget({"matchLabels": X}, 1)]).find_excess([(P, X), (Q, {}), (R, X)]) == {"r"}


async def test_a_budget_that_cannot_be_read_is_an_error():
    api = FakeApi()
    api.store(BUDGETS, {"metadata": {"name": "b", "namespace": "d"}, "spec": {"selector": 7}})
    with pytest.raises(ApiError, match="cannot be read"):
        await read_disruption_budgets(api)
