import pytest
from support.requests import build_request

from accelkit.errors import ConfigurationError
from accelkit.model.card import Card
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.sharing.quota_amounts import QuotaAmounts
from accelkit.placement.sharing.rules import NO_RULES, judge_quota, read_rules

GIB = 2**30
CARDS = [Card("a", "v", "H100", 16), Card("b", "v", "H100", 16), Card("c", "v", "L4", 16)]
REQUEST = build_request(4)


def reservation(**more):
    return {"name": "training", "cards": [{}], "for": [{"namespaces": ["ml"]}], **more}


def rules(*reservations):
    return read_rules({"reservations": reservations})


def test_first_quota_matching_namespace_applies():
    found = read_rules(
        {
            "quotas": [
                {"namespaces": ["ml-*", "x"], "memory": "64GiB"},
                {"namespaces": ["*"], "memory": 0, "cards": 2, "compute": 500},
            ]
        }
    )
    assert found.find_quota("ml-one").memory_bytes == found.find_quota("x").memory_bytes == 64 * GIB
    assert found.find_quota("ml-one").cards is None
    assert (found.find_quota("ml").memory_bytes, found.find_quota("ml").cards) == (0, 2)
    assert read_rules({"quotas": [{"namespaces": ["a"], "cards": 0}]}).find_quota("b") is None


@pytest.mark.parametrize(
    ("held", "asked", "sentence"),
    [
        (
            QuotaAmounts(60 * GIB),
            QuotaAmounts(8 * GIB),
            "namespace ml holds 60 GiB of its quota of 64 GiB (memory); the pod requests 8 GiB",
        ),
        (
            QuotaAmounts(),
            QuotaAmounts(cards=3),
            "namespace ml holds 0 of its quota of 2 (cards); the pod requests 3",
        ),
        (
            QuotaAmounts(compute=900),
            QuotaAmounts(1, compute=125),
            "namespace ml holds 90 % of its quota of 100 % (compute of one card); the pod requests 12.5 %",
        ),
    ],
)
def test_quota_misfit_reports_held_limit_and_requested_amounts(held, asked, sentence):
    (quota,) = read_rules({"quotas": [{"namespaces": ["ml"], "memory": "64GiB", "cards": 2, "compute": 1000}]}).quotas
    assert judge_quota(quota, "ml", held, asked) == Misfit(MisfitReason.QUOTA, detail=sentence, resolvable=False)


def test_quota_ignores_amounts_not_requested_and_allows_exact_fit():
    (quota,) = read_rules({"quotas": [{"namespaces": ["ml"], "memory": "64GiB", "cards": 2}]}).quotas
    assert judge_quota(quota, "ml", QuotaAmounts(60 * GIB), QuotaAmounts(4 * GIB, compute=9999)) is None
    # The quota was lowered below what is held: cards can still be had.
    assert judge_quota(quota, "ml", QuotaAmounts(70 * GIB, 1), QuotaAmounts(cards=1)) is None


def test_cards_are_reserved_by_node_model_id_and_count():
    def reserved(node="n", **cards):
        return sorted(rules(reservation(cards=[cards])).find_reserved(node, CARDS))

    assert reserved() == ["a", "b", "c"]
    assert reserved(nodes=["n*"]) == ["a", "b", "c"]
    assert reserved(nodes=["m", "x?"]) == []
    assert reserved(model="H100") == ["a", "b"]
    assert reserved(model="H100", count=1) == ["a"]
    assert reserved(ids=["c", "z"]) == ["c"]
    assert reserved(model="H100", ids=["c"]) == []


def test_first_of_two_reservations_of_card_applies():
    found = rules(reservation(cards=[{"ids": ["b"]}]), reservation(name="rest")).find_reserved("n", CARDS)
    assert {card: each.name for card, each in found.items()} == {"a": "rest", "b": "training", "c": "rest"}


@pytest.mark.parametrize(
    ("whom", "namespace", "priority", "closed"),
    [
        ([{"namespaces": ["ml"]}], "ml", 0, False),
        ([{"namespaces": ["ml-*"]}], "ml", 0, True),
        ([{"priority": 1000}], "x", 1000, False),
        ([{"priority": 1000}], "x", 999, True),
        ([{"namespaces": ["ml"], "priority": 10}], "ml", 9, True),
        ([{"namespaces": ["ml"], "priority": 10}], "x", 10, True),
        ([{"namespaces": ["ml"]}, {"priority": 10}], "x", 10, False),
    ],
)
def test_reservation_admits_only_its_namespaces_and_priorities(whom, namespace, priority, closed):
    found = rules(reservation(**{"for": whom})).close(REQUEST, namespace, priority)
    assert found.containers[0].closed == (frozenset({"training"}) if closed else frozenset())


def test_request_is_reopened_when_no_rule_closes_it():
    closed = rules(reservation()).close(REQUEST, "x", 0)
    assert NO_RULES.close(closed, "x", 0) == REQUEST


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "Expected `object`"),
        ({"quota": []}, "unknown field `quota`"),
        (
            {"quotas": [{"namespaces": ["a"], "memory": "64 apples"}]},
            "quotas.0.: memory: '64 apples' is not a valid size",
        ),
        ({"quotas": [{"namespaces": ["a"], "memory": "-1GiB"}]}, "memory: '-1GiB' is not a valid size"),
        ({"quotas": [{"namespaces": ["a"], "cards": -1}]}, "a limit is negative"),
        ({"quotas": [{"namespaces": ["a"]}]}, "no limit is set"),
        ({"quotas": [{"namespaces": [], "cards": 1}]}, "namespaces is empty"),
        ({"quotas": [{"namespaces": ["a"], "cards": True}]}, "Expected `int . null`, got `bool`"),
        ({"reservations": [reservation(name="")]}, "name is empty or not unique"),
        (
            {"reservations": [reservation(), reservation()]},
            "reservations.1.: name is empty or not unique",
        ),
        ({"reservations": [reservation(cards=[])]}, "cards is empty"),
        ({"reservations": [reservation(cards=[{"nodes": []}])]}, "nodes is empty"),
        ({"reservations": [reservation(cards=[{"count": 0}])]}, "count must be at least 1"),
        ({"reservations": [reservation(**{"for": []})]}, "for is empty"),
        ({"reservations": [reservation(**{"for": [{}]})]}, "contains neither namespaces nor priority"),
    ],
)
def test_invalid_rules_are_rejected_with_their_location(document, words):
    with pytest.raises(ConfigurationError, match=words):
        read_rules(document)
