"""Devices of plain init containers, which the kubelet's pod resources API does not report."""

import pytest
from device_names import unit
from support.pods import build_container
from support.reconciled_nodes import ReconciledNode

from accelkit.model.assignment import Share
from accelkit.node.reconciliation.observed_assignment import ContainerDevices

MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"


def memory(text):
    """Device IDs of memory: `aab` is two of a and one of b."""
    return ContainerDevices(memory=[unit(card, number) for number, card in enumerate(text)])


class World(ReconciledNode):
    def pod(self, name, assigned, *, init, app, resource=MEMORY, sidecar=0):
        def container(of, amount, **more):
            return {**build_container({resource: str(amount)} if amount else {}, of), **more}

        inits = [container("i", init)]
        if sidecar:
            inits.append(container("s", sidecar, restartPolicy="Always"))
        self.put(name, container("c", app), assigned=assigned, initContainers=inits)
        self.show(name)

    async def look(self, times=3):
        for _ in range(times):
            assert await self.reconcile()


@pytest.fixture
def world():
    return World("abcd")


async def test_unassigned_pod_with_cards_only_in_init_container_is_recorded(world):
    world.pod("p", None, init=2, app=0)
    world.recorded["uid-p"] = {"i": memory("ab")}
    await world.look()
    assert world.find_shares("p") == {"i": (Share("a", 1), Share("b", 1))}


async def test_swapped_pods_are_both_corrected(world):
    world.pod("p", {"c": (Share("a", 2),)}, init=0, app=2)
    world.pod("q", {"i": (Share("b", 2),)}, init=2, app=0)
    world.held["d", "p"] = {"c": memory("bb")}
    world.recorded["uid-q"] = {"i": memory("aa")}
    await world.look()
    assert (world.find_shares("p"), world.find_shares("q")) == ({"c": (Share("b", 2),)}, {"i": (Share("a", 2),)})
    assert world.reconciler.uncounted == ()


async def test_checkpoint_entries_of_other_containers_and_pods_are_ignored(world):
    world.pod("p", {"i": (Share("b", 2),), "c": (Share("b", 2),)}, init=2, app=2)
    world.held["d", "p"] = {"c": memory("bb")}
    world.recorded |= {"uid-p": {"c": memory("aa"), "ghost": memory("cc")}, "uid-gone": {"i": memory("aa")}}
    await world.look()
    assert world.written == []


async def test_unassigned_pod_is_recorded_if_kubelet_reports_all_containers(world):
    world.pod("p", None, init=8, app=4)
    world.held["d", "p"] = {"c": memory("aaaa")}
    world.recorded["uid-p"] = {"i": memory("aaaabbbb")}
    await world.look(10)
    assert world.find_shares("p") == {"i": (Share("a", 4), Share("b", 4)), "c": (Share("a", 4),)}
    assert len(world.written) == 1


async def test_partly_reported_pod_is_not_written_and_logged_once(world, caplog):
    world.pod("p", None, init=8, app=4)
    world.held["d", "p"] = {"c": memory("aaaa")}
    await world.look(10)
    assert (world.find_shares("p"), world.api.writes) == (None, [])
    (message,) = [each.message for each in caplog.records if "cannot correct pod d/p" in each.message]
    assert "its assignment contains no accelkit.io/memory" in message
    world.recorded["uid-p"] = {"i": memory("aaaabbbb")}
    await world.look(1)
    assert world.find_shares("p") == {"i": (Share("a", 4), Share("b", 4)), "c": (Share("a", 4),)}


@pytest.mark.parametrize(
    ("init", "held", "inferred"),
    [
        (2, "aaaa", (Share("a", 2),)),
        (4, "aabb", (Share("a", 2), Share("b", 2))),
        (2, "aabb", None),
    ],
)
async def test_devices_of_init_container_are_inferred_if_unambiguous(world, init, held, inferred):
    world.pod("p", None, init=init, app=4)
    world.held["d", "p"] = {"c": memory(held)}
    await world.look()
    assert (world.find_shares("p") or {}).get("i") == inferred


async def test_whole_card_of_init_container_is_inferred_from_app_container(world):
    world.pod("p", None, init=1, app=1, resource=CARDS)
    world.held["d", "p"] = {"c": ContainerDevices(whole=["c"])}
    await world.look()
    assert world.find_cards("p") == {"i": ["c"], "c": ["c"]}


async def test_nothing_is_inferred_if_sidecar_holds_devices(world):
    world.pod("p", None, init=2, app=2, sidecar=2)
    world.held["d", "p"] = {"c": memory("aa"), "s": memory("bb")}
    await world.look()
    assert world.find_shares("p") is None
