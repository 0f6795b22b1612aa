from __future__ import annotations

import pytest

from accelkit.errors import DevicePluginError
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.node import plugin as module
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node._proto import podresources_pb2 as resources
from accelkit.node.allocation import MEMORY_VARIABLE
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.discovery import FoundCard
from accelkit.node.grants import Grants
from accelkit.node.plugin import DevicePlugin
from accelkit.vendors.profiles import load_profiles

MEMORY = "accelkit.io/memory"
CARD = FoundCard(Card("a", "v", "m", 16), 0, 0, load_profiles()["simulated"])


def pod(name, amount, units):
    assignment = Assignment({"c": (Share("a", amount),)})
    return AssignedPod(f"uid-{name}", "d", name, ("", name), ("c",), assignment, {"c": units})


def ids(first, count):
    return [f"a::{number}" for number in range(first, first + count)]


class Pods:
    def __init__(self):
        self.listed = []

    def assigned(self):
        return self.listed

    async def refresh(self):
        """Nothing is newer than what is listed."""


class RefusedError(Exception):
    pass


class Context:
    async def abort(self, _code, details):
        raise RefusedError(details)


class Kubelet:
    """One plugin, and what containers hold: {pod: device IDs}."""

    def __init__(self, tmp_path, monkeypatch):
        self.pods = Pods()
        self.held = {}
        self.reachable = True
        self.plugin = DevicePlugin(
            tmp_path,
            resource=MEMORY,
            whole=False,
            pods=self.pods,
            grants=Grants(whole=False),
            other=("accelkit.io/cards", Grants(whole=True)),
        )
        monkeypatch.setattr(module, "held_devices", self._answer)

    async def _answer(self, _root):
        if not self.reachable:
            raise DevicePluginError("no answer")
        answer = resources.ListPodResourcesResponse()
        for name, device_ids in self.held.items():
            container = answer.pod_resources.add(name=name, namespace="d").containers.add(name="c")
            container.devices.add(resource_name=MEMORY, device_ids=device_ids)
        return answer

    async def allocate(self, device_ids):
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=device_ids)])
        answer = await self.plugin.Allocate(request, Context())
        return answer.container_responses[0].envs[MEMORY_VARIABLE]


@pytest.fixture
def kubelet(tmp_path, monkeypatch):
    return Kubelet(tmp_path, monkeypatch)


async def test_devices_are_worth_the_unit_that_is_shown(kubelet):
    kubelet.pods.listed = [pod("p", 8, 2)]
    await kubelet.plugin.show([CARD], 4)
    assert await kubelet.allocate(ids(0, 2)) == "8"


async def test_after_a_finer_unit_what_was_held_before_is_not_given_again(kubelet):
    kubelet.pods.listed = [pod("old", 8, 2), pod("new", 9, 9), pod("less", 8, 8)]
    kubelet.held = {"old": ids(0, 2)}
    await kubelet.plugin.show([CARD], 1)
    with pytest.raises(RefusedError, match="card a would be over capacity: containers would hold 17 of its 16 bytes"):
        await kubelet.allocate(ids(2, 9))
    assert await kubelet.allocate(ids(2, 8)) == "8"


async def test_what_was_granted_counts_before_the_kubelet_shows_it(kubelet):
    kubelet.pods.listed = [pod("old", 8, 2)]
    await kubelet.plugin.show([CARD], 4)
    await kubelet.allocate(ids(0, 2))
    await kubelet.plugin.show([CARD], 1)
    kubelet.reachable = False
    with pytest.raises(RefusedError, match="over capacity"):
        await kubelet.allocate(ids(2, 9))


async def test_a_pod_assigned_before_the_unit_changed_gets_no_other_amount(kubelet):
    kubelet.pods.listed = [pod("late", 8, 2)]
    await kubelet.plugin.show([CARD], 1)
    with pytest.raises(RefusedError, match="pod d/late was assigned units of 4 B and this node now has units of 1 B"):
        await kubelet.allocate(ids(0, 2))
