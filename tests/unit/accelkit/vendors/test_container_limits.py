import pytest

from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.card import Card
from accelkit.vendors.annotations import write_container_limits

GIB = 2**30
CARDS = {name: Card(name, vendor, "m", 16 * GIB) for name, vendor in (("a", "nvidia"), ("b", "nvidia"), ("x", "amd"))}


def limits(**containers):
    return write_container_limits(Assignment(containers), CARDS)


def test_container_limits_contain_request_and_limit_of_each_share():
    assert limits(main=(Share("a", 4 * GIB + 5),), side=(Share("a", GIB),)) == {
        "nvidia.com/container.main.gpu-memory.request": "4096Mi",
        "nvidia.com/container.main.gpu-memory.limit": "4096Mi",
        "nvidia.com/container.side.gpu-memory.request": "1024Mi",
        "nvidia.com/container.side.gpu-memory.limit": "1024Mi",
    }


def test_equal_shares_are_written_as_one_limit_of_at_least_1mi():
    assert limits(main=(Share("a", GIB), Share("b", GIB)))["nvidia.com/container.main.gpu-memory.limit"] == "1024Mi"
    assert limits(main=(Share("a", 5),))["nvidia.com/container.main.gpu-memory.limit"] == "1Mi"


@pytest.mark.parametrize(
    "containers",
    [
        {"main": (Share("a", GIB), Share("b", 2 * GIB))},
        {"main": (Share("a", 16 * GIB, whole=True),)},
        {"main": (Share("x", GIB),)},
        {"main": (Share("gone", GIB),)},
        {"main": ()},
        {MOVING: (Share("a", GIB),)},
        {35 * "c": (Share("a", GIB),)},
    ],
    ids=["different", "whole", "another vendor", "no card", "nothing", "moving", "name too long"],
)
def test_shares_without_single_nvidia_limit_are_not_written(containers):
    assert limits(**containers) == {}
