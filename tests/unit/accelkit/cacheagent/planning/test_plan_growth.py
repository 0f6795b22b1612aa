"""A plan costs each cache as much as any other, however many there are: agents make one for each change."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelkit.cacheagent.planning.desired_caches import DesiredCache
from accelkit.cacheagent.planning.observed import OwnNode
from accelkit.cacheagent.planning.plan import AgentPlan, make_plan
from accelkit.cacheagent.planning.world import Disk, ImagePolicies, Stored, World
from accelkit.gkm import names
from accelkit.kernelcache.compatibility.node_facts import NodeHardware
from accelkit.kernelcache.formats.label_reading import read_labels
from accelkit.kernelcache.oci.reference import parse_reference

LABELS = read_labels(
    {
        "cache.triton.image/cache-size-bytes": "65536",
        "cache.triton.image/entry-count": "1",
        "cache.triton.image/summary": '{"targets": [{"backend": "hip", "arch": "gfx90a", "warp_size": 64}]}',
        "cache.triton.image/variant": "multi",
    }
)


def plan_of(count: int) -> AgentPlan:
    """A plan for so many caches that lie in the store and are linked, and as many folders that nobody names."""
    desired_caches = {}
    for number in range(count):
        digest = f"{number:064x}"
        image = parse_reference(f"registry.example/team/cache@sha256:{digest}")
        key = f"team/cache-{number}"
        desired_caches[key] = DesiredCache(key, ("team",), image, "/cache", f"sha256-{digest}", verified=True)
    stored = Stored(3, 100, LABELS, {"policies": 0.0}, "/cache")
    world = World(
        now=0.0,
        node=OwnNode(NodeHardware(gpus=None)),
        desired_caches=desired_caches,
        image_policies=dict.fromkeys(desired_caches, ImagePolicies("policies")),
        disk=Disk(1 << 40),
        stored={desired.folder: stored for desired in desired_caches.values()}
        | {f"sha256-f{n:063x}": stored for n in range(count)},
        links={desired.link: desired.folder for desired in desired_caches.values()},
    )
    return make_plan(world)


@pytest.fixture
def links_named(monkeypatch):
    """How often the name of a link was made."""
    named = []
    original = names.build_link_path

    def count(key: str) -> Path:
        named.append(key)
        return original(key)

    monkeypatch.setattr(names, "build_link_path", count)
    return named


def test_plan_cost_grows_linearly_with_number_of_caches(links_named):
    costs = []
    for count in (10, 40):
        links_named.clear()
        plan = plan_of(count)
        assert len(plan.collect) == count
        assert plan.moves == plan.work == ()
        costs.append(len(links_named) / count)
    assert costs[0] == costs[1]
