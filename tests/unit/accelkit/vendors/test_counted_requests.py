import pytest

from accelkit.errors import RequestError
from accelkit.model.request import ContainerRequest, Kind
from accelkit.model.units import MAX_AMOUNT
from accelkit.vendors.counted_requests import CardContainer, apply_pod_rules, parse_amount
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.requests import read_request

CARD, MEMORY, COMPUTE = "gpu.intel.com/i915", "gpu.intel.com/memory.max", "gpu.intel.com/millicores"
SLICES = "enflame.com/shared-gcu"
DIALECTS = load_dialects(["native", "gas", "gcushare-2025"])


def container(limits, name="c", kind=Kind.APP):
    return CardContainer(name, kind, limits)


def read(*containers, **annotations):
    return read_request(containers, annotations, DIALECTS, 1).containers


def refusal(*containers, **annotations):
    with pytest.raises(RequestError) as raised:
        read(*containers, **annotations)
    return str(raised.value)


@pytest.mark.parametrize(
    ("limits", "expected"), [({"r": 8}, 8), ({"r": "8k"}, 8000), ({"r": 8.0}, 8), ({}, 0), ({"q": 8}, 0)]
)
def test_parse_amount_accepts_numbers_and_quantities(limits, expected):
    assert parse_amount(container(limits), "r") == expected


def test_invalid_quantity_is_rejected_with_container_and_resource():
    with pytest.raises(RequestError, match="container c: r: '8 cards' is not a Kubernetes quantity"):
        parse_amount(container({"r": "8 cards"}), "r")


def test_card_limit_without_amounts_requests_one_card():
    one = ContainerRequest("c", Kind.APP, 1, 0, 0, amounts=((CARD, 1),), counted_by=CARD)
    assert read(container({CARD: 1})) == (one,)
    assert read(container({CARD: 1}, kind=Kind.INIT))[0].kind is Kind.INIT


def test_amounts_are_divided_by_cards_and_rounded_down():
    (found,) = read(container({CARD: 3, MEMORY: 10, COMPUTE: 3000, "gpu.intel.com/foo": 11}))
    assert (found.cards, found.memory_bytes, found.compute) == (3, 3, 1000)
    assert found.amounts == (("gpu.intel.com/foo", 3), (CARD, 1))
    assert read(container({CARD: 2, MEMORY: MAX_AMOUNT}))[0].memory_bytes == MAX_AMOUNT // 2


def test_container_may_request_at_most_128_cards():
    assert read(container({CARD: 128}))[0].cards == 128
    assert "requests 129 gpu.intel.com/i915; at most 128 are allowed" in refusal(container({CARD: 129}))


def test_compute_over_capacity_of_requested_cards_is_rejected():
    assert "requests more than 2 cards can provide" in refusal(container({CARD: 2, COMPUTE: 2001}))


def test_amounts_without_card_limit_request_no_cards():
    assert read_request([container({MEMORY: 8, COMPUTE: 100})], {}, DIALECTS, 1) is None


def test_only_one_card_resource_may_be_nonzero():
    assert read(container({CARD: 0, "gpu.intel.com/xe": 2}))[0].cards == 2
    assert "request one of them" in refusal(container({CARD: 1, "gpu.intel.com/xe": 2}))


@pytest.mark.parametrize("other", [CARD, SLICES])
@pytest.mark.parametrize("resource", ["accelkit.io/memory", "accelkit.io/cards"])
def test_container_with_resources_of_two_device_plugins_is_rejected(resource, other):
    said = refusal(container({resource: 4, other: 1}))
    assert said.startswith(f"container c requests {resource} and cards in another system's resources")
    assert read(container({resource: 4, other: 0}))[0].container == "c"


@pytest.mark.parametrize(("slices", "compute"), [(1, 166), (3, 500), (5, 833), (6, 1000)])
def test_slice_requests_one_sixth_of_compute_of_card(slices, compute):
    assert read(container({SLICES: slices})) == (ContainerRequest("c", Kind.APP, 1, 0, compute),)


def test_more_than_six_slices_are_rejected():
    assert "requests 7 enflame.com/shared-gcu, but a card has 6; request at most 6" in refusal(container({SLICES: 7}))


def test_pod_without_applicable_rules_keeps_its_requests():
    requests = read(container({CARD: 1}, "a"), container({CARD: 1}, "b"))
    assert apply_pod_rules({}, DIALECTS, requests) == requests
    assert apply_pod_rules({"gas-allow": " , ", "gas-same-gpu": ","}, DIALECTS, requests) == requests
    assert apply_pod_rules({"gas-allow": "card1"}, load_dialects(["native"]), requests) == requests


@pytest.mark.parametrize(
    ("annotations", "allowed", "denied"),
    [
        ({"gas-allow": "card3, card12,card3"}, {3, 12}, set()),
        ({"gas-deny": " card1 ,,card0"}, set(), {0, 1}),
        ({"gas-allow": "card0", "gas-deny": "card1"}, {0}, {1}),
    ],
)
def test_allow_and_deny_rules_apply_to_each_container(annotations, allowed, denied):
    found = read(container({CARD: 1}, "a"), container({CARD: 2}, "b"), **annotations)
    assert [(each.allowed, each.denied, each.same_card_as) for each in found] == [(allowed, denied, "")] * 2


@pytest.mark.parametrize("text", ["card", "3", "xcard3", "card3x", "card-1"])
@pytest.mark.parametrize("key", ["gas-allow", "gas-deny"])
def test_invalid_card_name_in_rule_is_rejected_with_format(key, text):
    sentence = refusal(container({CARD: 1}), **{key: f"card1,{text}"})
    assert f"{key} contains invalid names: {text}; write it as card0,card1" in sentence


def test_same_gpu_rule_places_containers_on_card_of_first_container():
    one = {CARD: 1}
    found = read(*(container(one, name) for name in "abcd"), **{"gas-same-gpu": "d, b ,c"})
    assert [each.same_card_as for each in found] == ["", "", "b", "b"]
    assert {each.allowed for each in found} == {frozenset()}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a", "requires at least two different containers, but lists a"),
        ("a,a", "requires at least two different containers, but lists a, a"),
        ("a,nobody", "names nobody, which does not request exactly one card"),
        ("a,two", "names two, which does not request exactly one card"),
        ("a,whole", "names whole, which does not request exactly one card"),
        ("a,plain", "names plain, which does not request exactly one card"),
    ],
)
def test_same_gpu_rule_requires_containers_with_one_shared_card_each(text, sentence):
    containers = {"a": {CARD: 1}, "two": {CARD: 2}, "whole": {"accelkit.io/cards": 1}, "plain": {}}
    found = refusal(*(container(limits, name) for name, limits in containers.items()), **{"gas-same-gpu": text})
    assert f"gas-same-gpu {sentence}" in found


def test_pod_rules_preserve_refinements_of_container():
    entry = '{"b": {"same_card_as": "a"}}'
    limits = {"accelkit.io/memory": 1}
    found = read(*(container(limits, name) for name in "ab"), **{"accelkit.io/request": entry, "gas-deny": "card0"})
    assert [(each.same_card_as, each.denied) for each in found] == [("", {0}), ("a", {0})]


@pytest.mark.parametrize("name", ["gpu.intel.com/memory", "gpu.intel.com/tiles", "gpu.intel.com/xe_bandwidth"])
@pytest.mark.parametrize("counts", [CARD, "gpu.intel.com/xe"])
def test_other_amounts_are_divided_by_requested_cards(name, counts):
    (found,) = read(container({counts: 2, name: "7"}))
    assert (dict(found.amounts), found.counted_by) == ({counts: 1, name: 3}, counts)
    assert dict(read(container({counts: 1, name: "0"}))[0].amounts) == {counts: 1}
    # Less than one for each card: they need to have some of it.
    assert dict(read(container({counts: 2, name: "1"}))[0].amounts) == {counts: 1, name: 0}


def test_out_of_range_amount_or_more_than_16_amounts_are_rejected():
    assert "gpu.intel.com/foo: " in refusal(container({CARD: 1, "gpu.intel.com/foo": "10E"}))
    many = {f"gpu.intel.com/{number}": 1 for number in range(16)}
    assert "requests 17 amounts of its cards; at most 16 are allowed" in refusal(container({CARD: 1, **many}))


def test_monitoring_resource_is_not_an_amount():
    assert read(container({CARD: 1, "gpu.intel.com/i915_monitoring": 1, "cpu": 1}))[0].cards == 1


def test_single_numa_annotation_applies_only_with_value_true():
    containers = container({CARD: 2}, "a"), container({CARD: 1}, "b"), container({"accelkit.io/cards": 2}, "c")
    assert [each.numa for each in read(*containers, **{"gas-allocate-single-numa": "true"})] == ["single", "", ""]
    assert [each.numa for each in read(*containers, **{"gas-allocate-single-numa": "yes"})] == ["", "", ""]


def test_xelink_annotation_requires_pair_of_cards_in_container():
    containers = container({CARD: 2}, "a"), container({"accelkit.io/cards": 3}, "b")
    assert [each.link for each in read(*containers, **{"gas-allocate-xelink": ""})] == ["any", ""]
    said = refusal(container({CARD: 4}), **{"gas-allocate-xelink": "true"})
    assert "gas-allocate-xelink: container c requests 4 cards, which is not a pair; request two linked cards" in said
    both = {"gas-allocate-xelink": "true", "gas-same-gpu": "a,b"}
    assert "the pod has both" in refusal(container({CARD: 1}, "a"), container({CARD: 1}, "b"), **both)
