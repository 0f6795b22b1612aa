import json
from collections import Counter

import pytest

from accelkit.errors import RequestError
from accelkit.model.keys import REQUEST_ANNOTATION
from accelkit.model.request import Kind
from accelkit.vendors import requests as module
from accelkit.vendors.counted_requests import CardContainer
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.requests import read_request

NATIVE, GAS = load_dialects(["native"]), load_dialects(["gas"])


def build(count, resource="accelkit.io/memory"):
    return [CardContainer(f"c{i}", Kind.APP, {resource: "1"}) for i in range(count)]


def test_pod_with_more_than_128_card_containers_is_rejected_first(monkeypatch):
    calls = Counter()
    monkeypatch.setattr(module, "_refine", lambda *_, **__: calls.update(["refine"]))
    refinements = {f"c{i}": {"same_card_as": "c0"} for i in range(1, 1900)}
    with pytest.raises(RequestError, match="8000 containers request cards; at most 128 in a pod are allowed"):
        read_request(build(8000), {REQUEST_ANNOTATION: json.dumps(refinements)}, NATIVE, 1)
    assert not calls


def test_pod_with_128_card_containers_and_other_containers_is_accepted():
    refinements = {f"c{i}": {"same_card_as": f"c{i - 1}"} for i in range(1, 128)}
    others = [CardContainer(f"o{i}", Kind.APP, {"cpu": "1"}) for i in range(500)]
    found = read_request(build(128) + others, {REQUEST_ANNOTATION: json.dumps(refinements)}, NATIVE, 1)
    assert [each.same_card_as for each in found.containers] == ["", *(f"c{i}" for i in range(127))]


@pytest.mark.parametrize("key", ["gas-allow", "gas-deny"])
def test_card_list_is_deduplicated_and_limited_to_128_cards(key):
    pod = build(1, "gpu.intel.com/i915")
    read = {"gas-allow": lambda each: each.allowed, "gas-deny": lambda each: each.denied}[key]

    def find(*numbers):
        return read(read_request(pod, {key: ",".join(f"card{i}" for i in numbers)}, GAS, 1).containers[0])

    assert find(*range(128), *range(128)) == frozenset(range(128))
    with pytest.raises(RequestError, match="names 129 cards; at most 128 are allowed"):
        find(*range(129))


@pytest.mark.parametrize("key", ["gas-allow", "gas-deny", "gas-same-gpu"])
def test_oversized_card_list_annotation_is_rejected(key):
    with pytest.raises(RequestError, match="over the limit of 65536"):
        read_request(build(1, "gpu.intel.com/i915"), {key: "card1," * 11_000}, GAS, 1)
