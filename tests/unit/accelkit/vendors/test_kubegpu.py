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


def test_gpu_limit_requests_whole_cards_with_topology_policy():
    found = read(container(cards=2))["c"]
    assert (found.cards, found.whole, found.policy, found.groups) == (2, True, "topology", ())


@pytest.mark.parametrize(("value", "policy"), [(None, "topology"), (1, "topology"), (0, "")])
@pytest.mark.parametrize("place", ["pod", "container"])
def test_topology_annotation_sets_policy_of_container(value, policy, place):
    said = {} if value is None else {"gpu/gpu-generate-topology": value}
    info = {"requests": said} if place == "pod" else {"runningcontainer": {"c": {"requests": said}}}
    assert read(container(cards=2), info=info)["c"].policy == policy


def test_accelkit_request_overrides_kubegpu_policy():
    assert read(container(cards=2), request={"c": {"policy": "spread"}})["c"].policy == "spread"


def test_native_resources_are_read_together_with_kubegpu():
    found = read(
        container("m", **{"accelkit.io/memory": "8"}), container("w", **{"accelkit.io/cards": "2"}), container()
    )
    assert [(each.container, each.whole, each.policy) for each in found.values()] == [("m", False, ""), ("w", True, "")]


@pytest.mark.parametrize("prefix", [PREFIX, "alpha/grpresource/"])
def test_card_group_is_read_with_either_prefix(prefix):
    info = running(prefix, gpugrp1_A_gpugrp0_B_gpu_dev0=0, gpugrp1_A_gpugrp0_B_gpu_dev1=0)
    assert read(container(cards=2), info=info)["c"].groups == (CardGroup(Near.SWITCH, (0, 0)),)


def test_inner_group_requires_same_switch_and_outer_group_same_socket():
    pair = CardGroup(Near.SWITCH, (0, 0))
    assert groups(2, gpugrp0_A_gpu_a=0, gpugrp0_A_gpu_b=0) == ((pair,), 0)
    assert groups(2, gpugrp1_A_gpu_a=0, gpugrp1_A_gpu_b=0) == ((CardGroup(Near.SOCKET, (0, 0)),), 0)
    assert groups(2, gpugrp1_A_gpugrp0_A_gpu_a=0, gpugrp1_A_gpugrp0_B_gpu_a=0) == ((CardGroup(Near.SOCKET, (0, 0)),), 0)
    assert groups(2, gpugrp1_A_gpugrp0_A_gpu_a=0, gpugrp1_B_gpugrp0_A_gpu_a=0) == ((), 0)
    assert groups(2, gpugrp0_A_gpu_a=0, gpugrp0_B_gpu_a=0) == ((), 0)
    assert groups(2, gpu_0=0, gpu_1=0) == ((), 0)


def test_inner_groups_of_one_outer_group_are_on_same_socket():
    names = {f"gpugrp1_A_gpugrp0_{group}_gpu_{card}": 0 for group in "XY" for card in "ab"}
    both = CardGroup(Near.SWITCH, (0, 0), 0)
    assert groups(4, **names)[0] == (both, both)
    assert groups(5, gpugrp1_A_gpugrp0_Z_gpu_c=0, **names)[0] == (both, both, CardGroup(Near.SOCKET, (0,), 0))
    others = groups(6, gpugrp0_Q_gpu_a=0, gpugrp0_Q_gpu_b=0, **names)[0]
    assert others == (CardGroup(Near.SWITCH, (0, 0)), msgspec.structs.replace(both, socket=1), others[1])


def test_minimum_memory_of_cards_is_sorted_in_descending_order():
    assert groups(2, gpugrp0_A_gpu_a=178, gpugrp0_A_gpu_b=190) == ((CardGroup(Near.SWITCH, (190, 178)),), 178)
    assert groups(2, gpu_0=256, gpu_1=100) == ((CardGroup(Near.ANY, (256, 100)),), 100)
    assert groups(2, gpu_0=64, gpu_1=64) == ((), 64)
    assert groups(1, gpu_0=190) == ((), 190)


def test_cards_missing_in_annotation_may_be_any_card():
    assert groups(4, gpugrp0_A_gpu_a=9, gpugrp0_A_gpu_b=0) == (
        (CardGroup(Near.SWITCH, (9, 0)), CardGroup(Near.ANY, (0, 0))),
        0,
    )
    assert groups(3, gpu_a=9) == ((CardGroup(Near.ANY, (9, 0, 0)),), 0)


def test_min_memory_of_accelkit_request_applies_to_each_card():
    info = running(gpugrp0_A_gpu_a=2**35, gpugrp0_A_gpu_b=0)
    found = read(container(cards=2), info=info, request={"c": {"min_memory": "16Gi"}})["c"]
    assert (found.groups, found.min_memory_bytes) == ((CardGroup(Near.SWITCH, (2**35, 2**34)),), 2**34)


def test_each_container_has_its_own_card_groups():
    pair = {f"{PREFIX}gpugrp0/A/gpu/{card}/cards": 1 for card in "ab"}
    info = {
        "initcontainer": {"i": {"requests": pair}},
        "runningcontainer": {"c": {"requests": {f"{PREFIX}gpu/0/cards": 1}}},
    }
    found = read(container(cards=2), init=[container("i", 2)], info=info)
    assert (found["i"].groups, found["c"].groups) == ((CardGroup(Near.SWITCH, (0, 0)),), ())


def test_other_fields_of_kubegpu_annotation_are_ignored():
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
def test_unsupported_kubegpu_request_is_rejected_with_reason(requests, sentence):
    told = refusal(container(cards=2), info={"runningcontainer": {"c": {"requests": requests}}})
    assert told.startswith(KEY)
    assert sentence in told


def test_card_requested_zero_times_is_ignored():
    info = {"runningcontainer": {"c": {"requests": {f"{PREFIX}gpu/0/cards": 0, f"{PREFIX}gpu/1/cards": 1}}}}
    assert read(container(cards=1), info=info)["c"].groups == ()


def test_unsupported_scorer_is_rejected():
    info = {"runningcontainer": {"c": {"scorer": {f"{PREFIX}gpu/0/cards": 2}}}}
    assert "requests scorer 2: resource/group/gpu/0/cards; remove it" in refusal(container(cards=1), info=info)


@pytest.mark.parametrize("name", ["c", "other"])
def test_annotation_for_container_without_gpu_limit_is_rejected(name):
    info = {"runningcontainer": {name: {"requests": {f"{PREFIX}gpu/0/cards": 1}}}}
    told = refusal(container(**{"accelkit.io/memory": "4"}), info=info)
    assert f"requests 1 card for container {name}, whose limit nvidia.com/gpu is 0" in told


@pytest.mark.parametrize(
    "text", ["", "[]", '{"runningcontainer": 1}', '{"requests": {"a": "1"}}', "{" * 60_000, "x" * 70_000]
)
def test_unreadable_kubegpu_annotation_is_rejected(text):
    assert refusal(container(cards=1), info=text).startswith((f"cannot read {KEY}: ", f"{KEY} of "))


def test_kubegpu_annotation_is_ignored_without_kubegpu_dialect():
    annotations = {KEY: "nonsense"}
    spec = {"containers": [container(**{"accelkit.io/cards": "1"})]}
    pod = msgspec.convert({"metadata": {"annotations": annotations}, "spec": spec}, Pod)
    found = PodReader(load_dialects(["native"])).read(pod)
    assert found.read_request(1).containers[0].cards == 1
    assert found.annotations == {}


def test_kubegpu_is_served_where_agents_advertise_nvidia_resource():
    assert "kubegpu" not in [each.name for each in list_served_dialects(["", "aliyun.com/gpu-mem"])]
    assert "kubegpu" in [each.name for each in list_served_dialects(["", "x,nvidia.com/gpu"])]
    assert [each.name for each in list_served_dialects([])] == ["aliyun", "gcushare", "native"]
