import json

import msgspec
import pytest

from accelkit.errors import RequestError
from accelkit.model.keys import REQUEST_ANNOTATION
from accelkit.model.pod import Pod
from accelkit.model.request import ContainerRequest, Kind
from accelkit.model.units import MAX_AMOUNT
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.pod_reading import PodReader

NATIVE, GCUSHARE = load_dialect("native"), load_dialect("gcushare")
MEMORY, CARDS, GCU = "accelkit.io/memory", "accelkit.io/cards", "enflame.com/gcu-memory"
UNIT = 2**30


def container(name="c", *, always=False, **limits):
    limits = {{"memory": MEMORY, "cards": CARDS, "gcu": GCU}[key]: value for key, value in limits.items()}
    return {"name": name, "resources": {"limits": limits}} | ({"restartPolicy": "Always"} if always else {})


def pod(*containers, init=(), request=None):
    annotations = {}
    if request is not None:
        annotations[REQUEST_ANNOTATION] = request if isinstance(request, str) else json.dumps(request)
    spec = {"containers": list(containers), "initContainers": list(init)}
    return msgspec.convert({"metadata": {"annotations": annotations}, "spec": spec}, Pod)


def read(*containers, dialects=(NATIVE,), **more):
    found = PodReader(dialects).read(pod(*containers, **more))
    request = None if found is None else found.read_request(UNIT)
    return None if request is None else request.containers


def refusal(*containers, dialects=(NATIVE,), **more):
    with pytest.raises(RequestError) as raised:
        read(*containers, dialects=dialects, **more)
    return str(raised.value)


def test_memory_units_are_converted_to_bytes_of_one_card():
    assert read(container(memory="8")) == (ContainerRequest("c", Kind.APP, 1, 8 * UNIT),)


@pytest.mark.parametrize("value", [8, 8.0, "8", "8000m", "0.008k"])
def test_memory_limit_accepts_each_quantity_format(value):
    assert read(container(memory=value))[0].memory_bytes == 8 * UNIT


def test_request_contains_each_refinement_of_annotation():
    entry = {"compute": 250, "model": "m", "link": "any", "numa": "single", "policy": "spread"}
    request = {"c": entry, "d": {"same_card_as": "c"}}
    first, second = read(container(memory=1), container("d", memory=1), request=request)
    assert first == ContainerRequest("c", Kind.APP, 1, UNIT, **entry)
    assert second.same_card_as == "c"


@pytest.mark.parametrize(("amount", "found"), [("40Gi", 40 * 2**30), (17, 17), ("16G", 16 * 10**9), (0, 0)])
@pytest.mark.parametrize("limits", [{"cards": 2}, {"memory": 4}])
def test_min_memory_sets_minimum_memory_of_cards(limits, amount, found):
    (request,) = read(container(**limits), request={"c": {"min_memory": amount}})
    assert request.min_memory_bytes == found


@pytest.mark.parametrize("value", ["-1", -1, "0.5", "1e30", 1e30, "nonsense", "1ki", "8 ", 0.1, 10**40])
@pytest.mark.parametrize("resource", ["memory", "cards"])
def test_invalid_amount_is_rejected_with_container_and_resource(resource, value):
    sentence = refusal(container(**{resource: value}))
    assert "container c" in sentence
    assert f"accelkit.io/{resource}" in sentence


@pytest.mark.parametrize(
    ("limits", "entry", "sentence"),
    [
        (
            {"memory": 4, "cards": 1},
            {},
            "requests accelkit.io/memory and accelkit.io/cards; request either memory on shared",
        ),
        ({"memory": 10}, {"split": 4}, "10 units cannot be split evenly over 4 cards; request a multiple of 4"),
        ({"memory": 4}, {"split": 0}, "requests 0 cards"),
        ({"memory": 4}, {"split": -2}, "requests -2 cards"),
        ({"memory": 1000}, {"split": 1000}, "requests 1000 cards; at most 128"),
        ({"cards": 129}, {}, "requests 129 cards; at most 128"),
        ({"cards": 2}, {"split": 2}, "whole cards, for which split"),
        ({"cards": 2}, {"compute": 500}, "whole cards, for which split and compute are not allowed"),
        ({"memory": 4}, {"compute": 1001}, "compute must be between 0 and 1000 thousandths of a card"),
        ({"memory": 4}, {"compute": -1}, "compute must be between 0 and 1000 thousandths of a card"),
        ({"memory": "8Ei"}, {}, "out of range"),
        ({"memory": 2**40}, {}, "more memory than any node can have"),
        ({"memory": 4}, {"numa": "both"}, "numa must be 'single', not 'both'"),
        ({"memory": 4}, {"policy": "tight"}, "policy 'tight' is not one of binpack, spread"),
        ({"cards": 2}, {"min_memory": "40 GB"}, "container c: min_memory: '40 GB' is not a Kubernetes quantity; write"),
        ({"cards": 2}, {"min_memory": -1}, "container c: min_memory: -1 is negative; write it as 40Gi, or in bytes"),
        ({"cards": 2}, {"min_memory": 1.5}, "cannot read accelkit.io/request"),
        ({"memory": 4}, {"same_card_as": "c"}, "same_card_as is 'c'"),
        ({"memory": 4}, {"same_card_as": "nobody"}, "same_card_as is 'nobody'"),
        ({"memory": 4}, {"splitt": 2}, "unknown key 'splitt'; did you mean split?"),
        ({"memory": 4}, {"zzz": 2}, "unknown key 'zzz'; keys are split, compute"),
        ({"memory": 4}, {"split": "2"}, "cannot read accelkit.io/request"),
        ({"memory": 4}, {"split": 1.5}, "cannot read accelkit.io/request"),
        ({"memory": 4}, {"model": None}, "cannot read accelkit.io/request"),
    ],
)
def test_invalid_request_is_rejected_with_reason(limits, entry, sentence):
    assert sentence in refusal(container(**limits), request={"c": entry})


@pytest.mark.parametrize("text", ["", "null", "[]", '{"c": 1}', '{"c":', "{c: {}}", '{"c": {"split": ' + "[" * 60_000])
def test_unreadable_request_annotation_is_rejected(text):
    assert "cannot read accelkit.io/request" in refusal(container(memory=4), request=text)


def test_same_card_as_must_name_earlier_container():
    sentence = refusal(
        container("first", memory=1), container("then", memory=1), request={"first": {"same_card_as": "then"}}
    )
    assert (
        "container first: same_card_as is 'then'; set it to an earlier container of the pod that has cards" in sentence
    )


def test_memory_containers_of_gcushare_pod_share_one_card():
    found = read(container("a", gcu=4), container("b", gcu=8), container("c", gcu=2), dialects=[NATIVE, GCUSHARE])
    assert [each.same_card_as for each in found] == ["", "a", "a"]


def test_same_card_as_overrides_shared_card_of_gcushare_pod():
    found = read(
        container("a", gcu=4),
        container("b", gcu=8),
        container("c", gcu=2),
        dialects=[GCUSHARE],
        request={"c": {"same_card_as": "b"}},
    )
    assert [each.same_card_as for each in found] == ["", "a", "b"]


def test_container_is_read_in_first_dialect_with_its_resources():
    mixed = {"name": "c", "resources": {"limits": {MEMORY: "1", GCU: "4"}}}
    assert read(mixed, dialects=[NATIVE, GCUSHARE])[0].memory_bytes == UNIT
    assert read(mixed, dialects=[GCUSHARE, NATIVE])[0].memory_bytes == 4 * UNIT


@pytest.mark.parametrize(
    ("first", "then", "split"),
    [({"memory": 2}, {"memory": 2}, 2), ({"cards": 1}, {"memory": 1}, 1), ({"memory": 1}, {"cards": 1}, 1)],
    ids=["more cards", "memory of whole cards", "whole cards of memory"],
)
def test_same_card_as_that_cannot_be_satisfied_is_rejected(first, then, split):
    refinement = {"same_card_as": "a", "split": split}
    sentence = refusal(container("a", **first), container("b", **then), request={"b": refinement})
    assert "container b cannot share the cards of a" in sentence


def test_same_card_as_accepts_all_cards_of_other_container():
    split = {"a": {"split": 2}, "b": {"split": 2, "same_card_as": "a"}}
    assert read(container("a", memory=2), container("b", memory=2), request=split)[1].same_card_as == "a"


def test_containers_of_native_pod_do_not_share_card_by_default():
    assert [each.same_card_as for each in read(container("a", memory=1), container("b", memory=1))] == ["", ""]


def test_gcushare_pod_shares_card_of_first_container_with_memory():
    whole = {"name": "w", "resources": {"limits": {"enflame.com/gcu-count": 1}}}
    found = read(whole, container("a", gcu=4), {**whole, "name": "x"}, container("b", gcu=4), dialects=[GCUSHARE])
    assert [(each.container, each.same_card_as) for each in found] == [("w", ""), ("a", ""), ("x", ""), ("b", "a")]


@pytest.mark.parametrize("named", [{"memory": 0}, {"cards": 0}])
def test_zero_limit_in_first_dialect_requests_no_cards(named):
    assert read(container(gcu=4, **named), dialects=[NATIVE, GCUSHARE]) is None


@pytest.mark.parametrize("compute", [1, 1000])
def test_compute_may_be_between_1_and_1000(compute):
    assert read(container(memory=4), request={"c": {"compute": compute}})[0].compute == compute


def test_container_may_request_at_most_128_cards():
    assert read(container(cards=128))[0].cards == 128
    assert read(container(memory=128), request={"c": {"split": 128}})[0].cards == 128
    assert "requests 129 cards; at most 128" in refusal(container(memory=129), request={"c": {"split": 129}})


def test_memory_limit_may_be_up_to_max_amount():
    largest = pod(container(memory=MAX_AMOUNT))
    assert PodReader([NATIVE]).read(largest).read_request(1).containers[0].memory_bytes == MAX_AMOUNT
    with pytest.raises(RequestError, match="more memory than any node can have"):
        PodReader([NATIVE]).read(largest).read_request(2)


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_each_placement_policy_is_accepted(policy):
    assert read(container(memory=4), request={"c": {"policy": policy}})[0].policy == policy


def test_empty_entry_of_request_annotation_changes_nothing():
    assert read(container(memory=4), request={"c": {}}) == read(container(memory=4))
    assert read(container(cards=2), request={"c": {}}) == read(container(cards=2))


def test_whole_card_may_be_shared_with_another_container():
    assert read(container("a", cards=2), container("b", cards=1), request={"b": {"same_card_as": "a"}})[1] == (
        ContainerRequest("b", Kind.APP, 1, whole=True, same_card_as="a")
    )


def test_all_containers_without_card_request_are_listed_in_error():
    sentence = refusal(container("a", memory=1), container("b", cards=1), request={"z": {}, "y": {}})
    assert "has entries without a card request: y, z; the containers that request cards are: a, b" in sentence


def test_nic_refinement_requests_near_network_card():
    assert read(container(cards="1"), request={"c": {"nic": True}})[0].nic
    assert not read(container(cards="1"))[0].nic
    assert "Expected `bool`" in refusal(container(cards="1"), request={"c": {"nic": "near"}})
