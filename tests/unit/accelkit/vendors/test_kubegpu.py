"""What KubeGPU's pods ask for: cards by the limit of NVIDIA's plug-in, in groups by an annotation."""

import json

import msgspec
import pytest

from accelkit.errors import RequestError
from accelkit.model.pod import Pod
from accelkit.model.request import CardGroup, Near
from accelkit.vendors.dialects import list_served_dialects, load_dialects
from accelkit.vendors.pod_reading import PodReader

DIALECTS = load_dialects(["kubegpu", "native"])
KEY, GPU = "KubeDevice/DeviceInfo", "nvidia.com/gpu"
PREFIX = "resource/group/"


def container(name="c", cards=0, **limits):
    return {"name": name, "resources": {"limits": {GPU: str(cards)} if cards else limits}}


def read(*containers, init=(), info=None, request=None):
    annotations = {KEY: info if isinstance(info, str) else json.dumps(info)} if info is not None else {}
    annotations |= {"accelkit.io/request": json.dumps(request)} if request else {}
    spec = {"containers": list(containers), "initContainers": list(init)}
    found = PodReader(DIALECTS).read(msgspec.convert({"metadata": {"annotations": annotations}, "spec": spec}, Pod))
    asked = None if found is None else found.read_request(2**30)
    return {} if asked is None else {each.container: each for each in asked.containers}


def running(prefix=PREFIX, **requests):
    """An annotation in which the container `c` requests cards by such names, each with its least memory."""
    amounts = {}
    for name, memory in requests.items():
        path = prefix + name.replace("_", "/")
        amounts |= {f"{path}/cards": 1} | ({f"{path}/memory": memory} if memory else {})
    return {"runningcontainer": {"c": {"requests": amounts}}}


def groups(cards, **requests):
    found = read(container(cards=cards), info=running(**requests))["c"]
    return found.groups, found.min_memory_bytes


def refusal(*containers, **more):
    with pytest.raises(RequestError) as raised:
        read(*containers, **more)
    return str(raised.value)


def test_cards_are_whole_and_the_best_connected_ones_are_sought():
    found = read(container(cards=2))["c"]
    assert (found.cards, found.whole, found.policy, found.groups) == (2, True, "topology", ())


@pytest.mark.parametrize(("value", "policy"), [(None, "topology"), (1, "topology"), (0, "")])
@pytest.mark.parametrize("place", ["pod", "container"])
def test_a_pod_says_whether_the_best_connected_cards_are_sought(value, policy, place):
    said = {} if value is None else {"gpu/gpu-generate-topology": value}
    info = {"requests": said} if place == "pod" else {"runningcontainer": {"c": {"requests": said}}}
    assert read(container(cards=2), info=info)["c"].policy == policy


def test_what_the_pod_says_to_accelkit_wins():
    assert read(container(cards=2), request={"c": {"policy": "spread"}})["c"].policy == "spread"


def test_memory_and_cards_of_accelkit_are_asked_for_beside():
    found = read(
        container("m", **{"accelkit.io/memory": "8"}), container("w", **{"accelkit.io/cards": "2"}), container()
    )
    assert [(each.container, each.whole, each.policy) for each in found.values()] == [("m", False, ""), ("w", True, "")]


@pytest.mark.parametrize("prefix", [PREFIX, "alpha/grpresource/"])
def test_a_group_is_read_by_both_of_its_names(prefix):
    info = running(prefix, gpugrp1_A_gpugrp0_B_gpu_dev0=0, gpugrp1_A_gpugrp0_B_gpu_dev1=0)
    assert read(container(cards=2), info=info)["c"].groups == (CardGroup(Near.SWITCH, (0, 0)),)


def test_cards_of_an_inner_group_are_below_the_same_switches_and_those_of_an_outer_group_on_one_socket():
    pair = CardGroup(Near.SWITCH, (0, 0))
    assert groups(2, gpugrp0_A_gpu_a=0, gpugrp0_A_gpu_b=0) == ((pair,), 0)
    assert groups(2, gpugrp1_A_gpu_a=0, gpugrp1_A_gpu_b=0) == ((CardGroup(Near.SOCKET, (0, 0)),), 0)
    assert groups(2, gpugrp1_A_gpugrp0_A_gpu_a=0, gpugrp1_A_gpugrp0_B_gpu_a=0) == ((CardGroup(Near.SOCKET, (0, 0)),), 0)
    assert groups(2, gpugrp1_A_gpugrp0_A_gpu_a=0, gpugrp1_B_gpugrp0_A_gpu_a=0) == ((), 0)
    assert groups(2, gpugrp0_A_gpu_a=0, gpugrp0_B_gpu_a=0) == ((), 0)
    assert groups(2, gpu_0=0, gpu_1=0) == ((), 0)


def test_groups_of_one_outer_group_are_on_one_socket_and_others_need_not_be():
    names = {f"gpugrp1_A_gpugrp0_{group}_gpu_{card}": 0 for group in "XY" for card in "ab"}
    both = CardGroup(Near.SWITCH, (0, 0), 0)
    assert groups(4, **names)[0] == (both, both)
    assert groups(5, gpugrp1_A_gpugrp0_Z_gpu_c=0, **names)[0] == (both, both, CardGroup(Near.SOCKET, (0,), 0))
    others = groups(6, gpugrp0_Q_gpu_a=0, gpugrp0_Q_gpu_b=0, **names)[0]
    assert others == (CardGroup(Near.SWITCH, (0, 0)), msgspec.structs.replace(both, socket=1), others[1])


def test_the_least_memory_of_cards_is_kept_the_most_first():
    assert groups(2, gpugrp0_A_gpu_a=178, gpugrp0_A_gpu_b=190) == ((CardGroup(Near.SWITCH, (190, 178)),), 178)
    assert groups(2, gpu_0=256, gpu_1=100) == ((CardGroup(Near.ANY, (256, 100)),), 100)
    assert groups(2, gpu_0=64, gpu_1=64) == ((), 64)
    assert groups(1, gpu_0=190) == ((), 190)


def test_cards_that_are_not_named_may_be_any():
    assert groups(4, gpugrp0_A_gpu_a=9, gpugrp0_A_gpu_b=0) == (
        (CardGroup(Near.SWITCH, (9, 0)), CardGroup(Near.ANY, (0, 0))),
        0,
    )
    assert groups(3, gpu_a=9) == ((CardGroup(Near.ANY, (9, 0, 0)),), 0)


def test_the_least_memory_that_accelkit_is_told_counts_for_every_card():
    info = running(gpugrp0_A_gpu_a=2**35, gpugrp0_A_gpu_b=0)
    found = read(container(cards=2), info=info, request={"c": {"min_memory": "16Gi"}})["c"]
    assert (found.groups, found.min_memory_bytes) == ((CardGroup(Near.SWITCH, (2**35, 2**34)),), 2**34)


def test_each_container_has_its_own_groups():
    pair = {f"{PREFIX}gpugrp0/A/gpu/{card}/cards": 1 for card in "ab"}
    info = {
        "initcontainer": {"i": {"requests": pair}},
        "runningcontainer": {"c": {"requests": {f"{PREFIX}gpu/0/cards": 1}}},
    }
    found = read(container(cards=2), init=[container("i", 2)], info=info)
    assert (found["i"].groups, found["c"].groups) == ((CardGroup(Near.SWITCH, (0, 0)),), ())


def test_what_kubegpus_own_scheduler_adds_and_what_is_no_card_is_not_looked_at():
    info = {
        "podname": "p",
        "nodename": "elsewhere",
        "requests": None,
        "initcontainer": None,
        "runningcontainer": {
            "c": {
                "requests": {"A1": 3000, GPU: 2, "alpha.kubernetes.io/nvidia-gpu": 1, "resource/groupies": 5},
                "devrequests": {f"{PREFIX}gpu/0/odd": 1},
                "allocatefrom": {f"{PREFIX}gpu/0/cards": f"{PREFIX}gpugrp1/0/gpugrp0/1/gpu/GPU-7/cards"},
                "scorer": {"A1": 2, f"{PREFIX}gpu/0/cards": 1},
            },
            "nobody": {"requests": {"A1": 1}},
        },
    }
    found = read(container(cards=2), info=info)["c"]
    assert (found.cards, found.groups) == (2, ())


@pytest.mark.parametrize(
    ("requests", "sentence"),
    [
        ({f"{PREFIX}gpu/0/enumType": 3}, "requests an unsupported resource: resource/group/gpu/0/enumType; request"),
        (
            {f"{PREFIX}gpugrp2/A/gpu/0/cards": 1},
            "requests an unsupported resource: resource/group/gpugrp2/A/gpu/0/cards",
        ),
        ({f"{PREFIX}gpugrp0/A/gpugrp1/B/gpu/0/cards": 1}, "requests an unsupported resource"),
        ({f"{PREFIX}gpugrp0//gpu/0/cards": 1}, "requests an unsupported resource"),
        ({f"{PREFIX}gpu//cards": 1}, "requests an unsupported resource"),
        ({f"{PREFIX}gpu/0": 1}, "requests an unsupported resource"),
        ({f"{PREFIX}": 1}, "requests an unsupported resource"),
        ({f"{PREFIX}gpu/0/cards": 4}, "requests 4 cards with one name"),
        ({f"{PREFIX}gpu/0/memory": 4}, "requests memory of a card that it does not request"),
        ({f"{PREFIX}gpu/0/cards": 0, f"{PREFIX}gpu/0/memory": 4}, "requests memory of a card that it does not request"),
        ({f"{PREFIX}gpu/0/cards": -1}, "requests the invalid amount -1"),
        ({f"{PREFIX}gpu/0/cards": 1, f"{PREFIX}gpu/0/memory": 2**63}, "requests the invalid amount"),
        ({GPU: -1}, "requests the invalid amount -1"),
        (
            {f"{PREFIX}gpu/{card}/cards": 1 for card in range(3)},
            "3 cards for container c, whose limit nvidia.com/gpu is 2",
        ),
        ({GPU: 3}, "requests 3 cards for container c, whose limit nvidia.com/gpu is 2; set the limit"),
        ({"alpha.kubernetes.io/nvidia-gpu": 3}, "requests 3 cards for container c, whose limit nvidia.com/gpu is 2"),
        ({"gpu/gpu-generate-topology": 2}, "gpu/gpu-generate-topology is 2; set it to 1"),
    ],
)
def test_what_cannot_be_had_is_refused_with_a_reason(requests, sentence):
    told = refusal(container(cards=2), info={"runningcontainer": {"c": {"requests": requests}}})
    assert told.startswith(KEY)
    assert sentence in told


def test_a_card_that_is_asked_for_0_times_is_not_asked_for():
    info = {"runningcontainer": {"c": {"requests": {f"{PREFIX}gpu/0/cards": 0, f"{PREFIX}gpu/1/cards": 1}}}}
    assert read(container(cards=1), info=info)["c"].groups == ()


def test_a_scorer_that_packs_otherwise_is_refused():
    info = {"runningcontainer": {"c": {"scorer": {f"{PREFIX}gpu/0/cards": 2}}}}
    assert "requests scorer 2: resource/group/gpu/0/cards; remove it" in refusal(container(cards=1), info=info)


@pytest.mark.parametrize("name", ["c", "other"])
def test_a_container_without_the_limit_gets_no_cards_by_the_annotation(name):
    info = {"runningcontainer": {name: {"requests": {f"{PREFIX}gpu/0/cards": 1}}}}
    told = refusal(container(**{"accelkit.io/memory": "4"}), info=info)
    assert f"requests 1 card for container {name}, whose limit nvidia.com/gpu is 0" in told


@pytest.mark.parametrize(
    "text", ["", "[]", '{"runningcontainer": 1}', '{"requests": {"a": "1"}}', "{" * 60_000, "x" * 70_000]
)
def test_an_annotation_that_cannot_be_read_is_refused(text):
    assert refusal(container(cards=1), info=text).startswith((f"cannot read {KEY}: ", f"{KEY} of "))


def test_the_annotation_of_a_pod_is_read_only_where_the_dialect_is_in_use():
    annotations = {KEY: "nonsense"}
    spec = {"containers": [container(**{"accelkit.io/cards": "1"})]}
    pod = msgspec.convert({"metadata": {"annotations": annotations}, "spec": spec}, Pod)
    found = PodReader(load_dialects(["native"])).read(pod)
    assert found.read_request(1).containers[0].cards == 1
    assert found.annotations == {}


def test_pods_with_the_limit_of_nvidias_plugin_are_read_where_our_agents_serve_it():
    assert "kubegpu" not in [each.name for each in list_served_dialects(["", "aliyun.com/gpu-mem"])]
    assert "kubegpu" in [each.name for each in list_served_dialects(["", "x,nvidia.com/gpu"])]
    assert [each.name for each in list_served_dialects([])] == ["aliyun", "gcushare", "native"]
