"""Limits in the driver, through the stand-in library, and in dmem on a tree of files."""

from dataclasses import replace

import msgspec
import pynvml
import pytest
from fake_api.server import FakeApi
from standin_nvml import Limits, StandinCard
from support.pods import read_pod

from accelkit.model.assignment import Share
from accelkit.model.card import Card
from accelkit.node.discovery import FoundCard
from accelkit.node.discovery.nvml import load_nvml
from accelkit.node.enforcement.enforcer import Enforcer
from accelkit.node.pods import NodePods
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.profiles import load_profiles

MIB, GIB = 2**20, 2**30
BDFS = ("0000:3b:00.0", "0000:5e:00.0")
UID = "11111111-2222-4333-8444-555555555555"
CARDS = [
    FoundCard(Card(f"GPU-{n}", "nvidia", "m", 16 * GIB, bdf=bdf), n, n, load_profiles()["nvidia"], uuid=f"GPU-{n}")
    for n, bdf in enumerate(BDFS)
]
AMD = FoundCard(Card("a", "amd", "m", 16 * GIB, bdf="0000:03:00.0"), 0, 0, load_profiles()["amd"])


class Node:
    """A node's pods and their cgroups."""

    def __init__(self, root, driver):
        self.root, self.driver = root, driver
        self.now = 0.0
        self.pods = NodePods(FakeApi(), "n", load_dialect("native"))
        self.enforcer = self.make_enforcer(cgroup_limits=True)
        self.folder = root / f"sys/fs/cgroup/kubepods/pod{UID}"
        self.folder.mkdir(parents=True)
        (root / "sys/fs/cgroup/cgroup.controllers").touch()

    def make_enforcer(self, *, cgroup_limits):
        return Enforcer(self.root, pods=self.pods, load=load_nvml, cgroup_limits=cgroup_limits, clock=lambda: self.now)

    def cgroup(self, container):
        return self.folder / container_id(container)

    def start(self, **containers):
        """Start a pod with shares by container, all of its containers running."""
        for container in containers:
            self.cgroup(container).mkdir()
            (self.cgroup(container) / "cgroup.procs").write_text("1\n")
        statuses = [
            {"name": name, "containerID": f"containerd://{container_id(name)}", "state": {"running": {}}}
            for name in containers
        ]
        asked = [{"name": name, "resources": limits(shares)} for name, shares in containers.items()]
        status = {"containerStatuses": statuses}
        self.pods.take(read_pod("p", *asked, assigned=containers, metadata={"uid": UID}, status=status))

    async def look(self, *cards):
        self.now += 100
        await self.enforcer.enforce(cards or CARDS)
        return self.enforcer.enforced


def limits(shares):
    """Return the request of a container with these shares, in a unit of one byte."""
    whole = [share for share in shares if share.whole]
    resource, amount = ("cards", len(whole)) if whole else ("memory", sum(share.memory_bytes for share in shares))
    return {"limits": {f"accelkit.io/{resource}": str(amount)}}


def container_id(name):
    return name.encode().hex().rjust(64, "0")


@pytest.fixture
def node(tmp_path, standin_nvml):
    standin_nvml.cards += [StandinCard(each.card.bdf, each.card.id, each.index, total=16 * GIB) for each in CARDS]
    standin_nvml.write()
    return Node(tmp_path / "host", standin_nvml)


async def test_each_container_is_limited_to_its_share_in_its_own_cgroup(node):
    node.start(main=(Share("GPU-0", 3 * GIB),), side=(Share("GPU-0", GIB), Share("GPU-1", 2 * GIB + 5)))
    assert await node.look() == {("d", "p"): "nvml"}
    assert node.driver.read_limits() == {
        (BDFS[0], node.cgroup("main")): Limits(0, 3 * GIB),
        (BDFS[0], node.cgroup("side")): Limits(0, GIB),
        (BDFS[1], node.cgroup("side")): Limits(0, 2 * GIB),
    }


async def test_limit_of_ended_container_is_removed(node, tmp_path):
    node.start(main=(Share("GPU-0", 3 * GIB),))
    await node.look()
    node.cgroup("main").rename(tmp_path / "gone")
    node.start(other=(Share("GPU-0", GIB),))
    assert await node.look() == {("d", "p"): "nvml"}
    assert list(node.driver.read_limits()) == [(BDFS[0], node.cgroup("other"))]
    assert node.driver.read_notes() == []


async def test_restarted_container_is_limited_before_next_full_check(node):
    node.start(main=(Share("GPU-0", 3 * GIB),))
    await node.enforcer.enforce(CARDS)
    node.driver.path.with_name("standin-nvml.state.limits").unlink()
    await node.enforcer.enforce(CARDS)
    assert node.driver.read_limits() == {}
    node.start(again=(Share("GPU-0", 3 * GIB),))
    await node.enforcer.enforce(CARDS)
    assert list(node.driver.read_limits()) == [(BDFS[0], node.cgroup("again"))]


async def test_a_removed_limit_is_set_again(node):
    node.start(main=(Share("GPU-0", 3 * GIB),))
    await node.look()
    node.driver.path.with_name("standin-nvml.state.limits").unlink()
    assert await node.look() == {("d", "p"): "nvml"}
    assert node.driver.read_limits() == {(BDFS[0], node.cgroup("main")): Limits(0, 3 * GIB)}


async def test_whole_card_has_no_limit(node):
    node.start(main=(Share("GPU-0", 16 * GIB, whole=True),))
    assert await node.look() == {}
    assert node.driver.read_limits() == {}


@pytest.mark.parametrize(
    ("function", "number", "reason"),
    [
        ("nvmlDeviceSetMemoryLimits_v1", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, "does not support memory limits"),
        ("nvmlDeviceGetMemoryLimits_v1", pynvml.NVML_ERROR_NOT_SUPPORTED, "does not support memory limits"),
        ("nvmlDeviceSetMemoryLimits_v1", pynvml.NVML_ERROR_NO_PERMISSION, "does not permit this agent to set"),
        ("nvmlDeviceSetMemoryLimits_v1", pynvml.NVML_ERROR_NOT_FOUND, "option RmMemacctMode=1"),
        ("nvmlDeviceSetMemoryLimits_v1", pynvml.NVML_ERROR_UNKNOWN, "Unknown Error"),
        ("nvmlInitWithFlags", pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "the driver is not loaded"),
    ],
)
async def test_shares_are_advisory_and_logged_once_if_driver_refuses_limits(node, caplog, function, number, reason):
    caplog.set_level("INFO")
    node.driver.failures[function] = number
    node.driver.write()
    node.start(main=(Share("GPU-0", 3 * GIB),))
    assert [await node.look(), await node.look()] == [{}, {}]
    assert [record.message for record in caplog.records if reason in record.message][1:] == []
    assert any(reason in record.message for record in caplog.records)


async def test_limit_that_driver_does_not_confirm_is_not_enforced(node):
    node.start(main=(Share("GPU-0", 3 * GIB),), side=(Share("GPU-1", GIB),))
    node.driver.path.with_name("standin-nvml.state.limits").mkdir()
    assert await node.look() == {}


async def test_card_in_mig_mode_is_not_limited(node):
    node.driver.cards[0] = replace(node.driver.cards[0], mig=True)
    node.driver.write()
    node.start(main=(Share("GPU-0", 3 * GIB),), side=(Share("GPU-1", GIB),))
    assert await node.look() == {}
    assert list(node.driver.read_limits()) == [(BDFS[1], node.cgroup("side"))]


async def test_a_pod_with_a_container_without_cgroup_is_advisory(node):
    node.start(main=(Share("GPU-0", 3 * GIB),), side=(Share("GPU-0", GIB),))
    (node.cgroup("side") / "cgroup.procs").unlink()
    node.cgroup("side").rmdir()
    assert await node.look() == {}
    assert node.driver.read_notes() == []


async def test_no_limit_is_set_without_host_cgroups(node, caplog):
    caplog.set_level("INFO")
    (node.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    node.start(main=(Share("GPU-0", 3 * GIB),))
    assert await node.look() == {}
    assert "the host's cgroups of version 2 are missing" in caplog.text
    assert node.driver.read_limits() == {}


@pytest.mark.parametrize("cards", [(), (AMD,)])
async def test_no_limit_is_set_if_limits_are_disabled(node, cards):
    node.enforcer = node.make_enforcer(cgroup_limits=False)
    limits = with_dmem(node)
    node.start(main=(Share(cards[0].card.id if cards else "GPU-0", 3 * GIB),))
    assert await node.look(*cards) == {}
    assert node.driver.read_limits() == {}
    assert limits.read_text() == ""


async def test_removed_card_is_not_reported_as_missing_controller(node, caplog):
    caplog.set_level("INFO")
    del node.driver.cards[0]
    node.driver.write()
    node.start(main=(Share("GPU-0", 3 * GIB),))
    assert await node.look() == {}
    assert f"it cannot find card {BDFS[0]}: Not Found" in caplog.text
    assert "RmMemacctMode" not in caplog.text


async def test_mps_enforces_shares_if_driver_does_not_support_limits(node):
    node.driver.failures["nvmlDeviceSetMemoryLimits_v1"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    node.driver.write()
    node.start(main=(Share("GPU-0", 3 * GIB),))
    assert await node.look(
        *(replace(each, card=msgspec.structs.replace(each.card, enforcement="mps")) for each in CARDS)
    ) == {("d", "p"): "mps"}


def with_dmem(node):
    """Enable the controller for the pod's cgroup, add a region of AMD's card, and return the file of its limits."""
    (node.root / "sys/fs/cgroup/dmem.capacity").write_text("drm/0000:03:00.0/vram0 17179869184\n")
    (node.folder / "dmem.max").write_text("")
    return node.folder / "dmem.max"


async def test_only_dmem_limits_confirmed_by_kernel_are_enforced(node):
    node.start(main=(Share("a", 4 * GIB),))
    assert await node.look(AMD) == {}
    limits = with_dmem(node)
    assert await node.look(AMD) == {("d", "p"): "dmem"}
    assert limits.read_text() == f"drm/0000:03:00.0/vram0 {4 * GIB}\n"


async def test_card_is_not_limited_by_dmem_without_profile_entry(node):
    node.start(main=(Share("a", 4 * GIB),))
    limits = with_dmem(node)
    assert await node.look(replace(AMD, profile=msgspec.structs.replace(AMD.profile, enforcement=()))) == {}
    assert limits.read_text() == ""
