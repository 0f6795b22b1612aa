import json

import msgspec
import pytest
from support.pods import build_container, build_pod

from accelkit.errors import RequestError
from accelkit.model.keys import REQUEST_ANNOTATION
from accelkit.model.pod import Pod
from accelkit.model.request import PodSelector
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.pod_reading import PodReader

READER = PodReader(load_dialects(["native"]))
WEB = {"matchLabels": {"app": "web"}}


def read(*, memory=4, cards=0, labels=None, priority=None, **request):
    limits = {"accelkit.io/cards": cards} if cards else {"accelkit.io/memory": memory}
    metadata = {"labels": labels, "annotations": {REQUEST_ANNOTATION: json.dumps({"c": request})}}
    pod = build_pod("p", build_container(limits), metadata=metadata, priority=priority)
    return READER.read(msgspec.convert(pod, Pod))


def request(**more):
    (container,) = read(**more).read_request(1).containers
    return container


def refusal(**more):
    with pytest.raises(RequestError) as raised:
        read(**more).read_request(1)
    return str(raised.value)


def test_card_ids_of_request_are_read():
    assert request(card_ids=["GPU-1", "GPU-2"]).card_ids == {"GPU-1", "GPU-2"}
    assert request(cards=2, card_ids=["GPU-1", "GPU-2"]).card_ids == {"GPU-1", "GPU-2"}
    assert request().card_ids == frozenset()


def test_pod_selectors_match_labels_in_same_namespace():
    labels = {"tier": "x", "app": "web"}
    found = request(**{"with": WEB, "apart": {"matchLabels": {"tier": "y", "app": "web"}}, "labels": labels})
    assert found.beside == PodSelector(("app=web",), "d", own=True)
    assert found.apart == PodSelector(("app=web", "tier=y"), "d", own=False)
    assert request(**{"with": WEB}).beside.own is False


def test_labels_and_priority_of_pod_are_read():
    found = read(labels={"b": "2", "a": "1"}, priority=7)
    assert (found.labels, found.priority) == (("a=1", "b=2"), 7)
    assert (read().labels, read().priority) == ((), 0)


def test_at_most_128_labels_of_pod_are_kept():
    found = read(labels={f"k{number:04}": "x" for number in range(5000)})
    assert len(found.labels) == 128
    assert found.labels[0] == "k0000=x"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"card_ids": [""]}, "IDs of 1 to 48 characters"),
        ({"card_ids": ["x" * 49]}, "IDs of 1 to 48 characters"),
        ({"card_ids": [f"{number}" for number in range(129)]}, "at most 128 IDs"),
        ({"cards": 2, "card_ids": ["a"]}, "requests 2 cards, but card_ids contains only 1"),
        ({"card_ids": ["a"], "split": 2}, "requests 2 cards, but card_ids contains only 1"),
        ({"with": WEB, "cards": 1}, "whole cards, which cannot be shared, and has 'with'"),
        ({"apart": WEB, "cards": 1}, "whole cards, which cannot be shared, and has 'apart'"),
        ({"with": {"matchLabels": {}}}, "with must have 1 to 16 valid labels"),
        ({"apart": {"matchLabels": {"": "x"}}}, "apart must have 1 to 16 valid labels"),
        ({"apart": {"matchLabels": {"a=b": "x"}}}, "apart must have 1 to 16 valid labels"),
        ({"apart": {"matchLabels": {"a": "x" * 64}}}, "apart must have 1 to 16 valid labels"),
        ({"apart": {"matchLabels": {f"{number}": "" for number in range(17)}}}, "apart must have 1 to 16 valid labels"),
        ({"apart": {"matchExpressions": []}}, "cannot read accelkit.io/request"),
        ({"with": WEB, "apart": WEB}, "no card is accepted"),
        ({"with": {"matchLabels": {"app": "web", "x": "y"}}, "apart": WEB}, "no card is accepted"),
        ({"beside": WEB}, "unknown key 'beside'"),
        ({"card_id": ["a"]}, "did you mean card_ids"),
    ],
)
def test_invalid_sharing_request_is_rejected(more, words):
    assert words in refusal(**more)


def test_with_and_apart_selectors_may_be_combined():
    found = request(**{"with": WEB, "apart": {"matchLabels": {"app": "web", "x": "y"}}})
    assert found.beside.labels == ("app=web",)


@pytest.mark.parametrize(("different", "words"), [(8, ""), (9, "contain 9 different sets of labels; at most 8")])
def test_pod_may_have_at_most_8_different_selectors(different, words):
    names = [f"c{number}" for number in range(32)]
    apart = {
        name: {"apart": {"matchLabels": {"app": f"app-{number % different}"}}} for number, name in enumerate(names)
    }
    containers = [{"name": name, "resources": {"limits": {"accelkit.io/memory": 1}}} for name in names]
    annotations = {REQUEST_ANNOTATION: json.dumps(apart)}
    pod = {"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": containers}}
    found = READER.read(msgspec.convert(pod, Pod))
    if words:
        with pytest.raises(RequestError, match=words):
            found.read_request(1)
    else:
        assert len(found.read_request(1).selectors) == different
