"""What plain init containers hold, which the kubelet's pod resources do not show."""

from __future__ import annotations

import msgspec
import pytest
from device_names import unit
from fake_api.server import FakeApi
from support.pods import build_pod

from accelkit.kube.events import Events
from accelkit.kube.paths import PODS
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, Share, decode_assignment, encode_assignment
from accelkit.model.card import Card
from accelkit.model.pod import Pod
from accelkit.node.metrics import Metrics
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePods
from accelkit.node.reconciliation.observed_assignment import ContainerDevices
from accelkit.node.reconciliation.reconciler import Reconciler
from accelkit.vendors.dialects import load_dialect

MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"


def memory(text):
    """Device IDs of memory: `aab` is two of a and one of b."""
    return ContainerDevices(memory=[unit(card, number) for number, card in enumerate(text)])


class World:
    def __init__(self):
        self.api = FakeApi()
        self.node = NodeCards({name: Card(name, "v", "m", 16) for name in "abcd"}, 1)
        native = load_dialect("native")
        self.pods = NodePods(self.api, "n", native)
        self.pods.learn_cards(self.node)
        self.held, self.recorded = {}, {}
        self.reconciler = Reconciler(
            self.api,
            pods=self.pods,
            cards=lambda: self.node,
            events=Events(self.api, "agent", "n"),
            metrics=Metrics(),
        )

    def pod(self, name, assigned, *, init, app, resource=MEMORY, sidecar=0):
        def container(of, amount, **more):
            return {"name": of, "resources": {"limits": {resource: str(amount)} if amount else {}}, **more}

        annotations = {ASSIGNMENT_ANNOTATION: encode_assignment(Assignment(assigned))} if assigned else {}
        inits = [container("i", init)]
        if sidecar:
            inits.append(container("s", sidecar, restartPolicy="Always"))
        metadata = {"annotations": annotations}
        status = {"phase": "Running", "startTime": "2024-01-01T00:00:00Z"}
        pod = build_pod(name, container("c", app), metadata=metadata, status=status, initContainers=inits)
        self.api.store(PODS, pod)
        self.pods.take(msgspec.convert(self.find(name), Pod))

    def find(self, name):
        return next(each for path, each in self.api.objects.items() if path.endswith(f"/pods/{name}"))

    def assignment(self, name):
        text = self.find(name)["metadata"]["annotations"].get(ASSIGNMENT_ANNOTATION)
        return None if text is None else decode_assignment(text).containers

    async def look(self, times=3):
        for _ in range(times):
            assert await self.reconciler.reconcile(self.held, self.recorded)

    @property
    def patches(self):
        return [each for each in self.api.writes if each.method == "PATCH"]


@pytest.fixture
def world():
    return World()


async def test_the_card_of_an_init_container_alone_is_the_one_that_the_kubelet_gave(world):
    world.pod("p", {"i": (Share("b", 2),)}, init=2, app=0)
    world.recorded["uid-p"] = {"i": memory("aa")}
    await world.look()
    assert (world.assignment("p"), len(world.patches)) == ({"i": (Share("a", 2),)}, 1)


async def test_a_pod_whose_init_container_alone_asks_and_nobody_assigned_is_recorded(world):
    world.pod("p", None, init=2, app=0)
    world.recorded["uid-p"] = {"i": memory("ab")}
    await world.look()
    assert world.assignment("p") == {"i": (Share("a", 1), Share("b", 1))}


async def test_pods_that_swapped_are_both_corrected(world):
    world.pod("p", {"c": (Share("a", 2),)}, init=0, app=2)
    world.pod("q", {"i": (Share("b", 2),)}, init=2, app=0)
    world.held["d", "p"] = {"c": memory("bb")}
    world.recorded["uid-q"] = {"i": memory("aa")}
    await world.look()
    assert (world.assignment("p"), world.assignment("q")) == ({"c": (Share("b", 2),)}, {"i": (Share("a", 2),)})
    assert world.reconciler.uncounted == ()


async def test_what_is_recorded_of_other_containers_and_other_pods_says_nothing(world):
    world.pod("p", {"i": (Share("b", 2),), "c": (Share("b", 2),)}, init=2, app=2)
    world.held["d", "p"] = {"c": memory("bb")}
    world.recorded |= {"uid-p": {"c": memory("aa"), "ghost": memory("cc")}, "uid-gone": {"i": memory("aa")}}
    await world.look()
    assert world.patches == []


async def test_init_and_app_that_were_bound_past_us_are_written_once_where_the_kubelet_tells(world):
    world.pod("p", None, init=8, app=4)
    world.held["d", "p"] = {"c": memory("aaaa")}
    world.recorded["uid-p"] = {"i": memory("aaaabbbb")}
    await world.look(10)
    assert world.assignment("p") == {"i": (Share("a", 4), Share("b", 4)), "c": (Share("a", 4),)}
    assert len(world.patches) == 1


async def test_what_is_known_in_part_is_not_written_and_told_once(world, caplog):
    world.pod("p", None, init=8, app=4)
    world.held["d", "p"] = {"c": memory("aaaa")}
    await world.look(10)
    assert (world.assignment("p"), world.api.writes) == (None, [])
    (told,) = [each.message for each in caplog.records if "not all that pod d/p holds is known" in each.message]
    assert "its assignment gives container i no accelkit.io/memory" in told
    world.recorded["uid-p"] = {"i": memory("aaaabbbb")}
    await world.look(1)
    assert world.assignment("p") == {"i": (Share("a", 4), Share("b", 4)), "c": (Share("a", 4),)}


@pytest.mark.parametrize(
    ("init", "shown", "inferred"),
    [
        (2, "aaaa", (Share("a", 2),)),
        (4, "aabb", (Share("a", 2), Share("b", 2))),
        (2, "aabb", None),
    ],
)
async def test_an_init_container_held_what_the_app_containers_took_over_where_only_one_answer_is_left(
    world, init, shown, inferred
):
    world.pod("p", None, init=init, app=4)
    world.held["d", "p"] = {"c": memory(shown)}
    await world.look()
    assert (world.assignment("p") or {}).get("i") == inferred


async def test_whole_cards_are_taken_over_too(world):
    world.pod("p", None, init=1, app=1, resource=CARDS)
    world.held["d", "p"] = {"c": ContainerDevices(whole=["c"])}
    await world.look()
    assert {name: [each.card for each in shares] for name, shares in world.assignment("p").items()} == {
        "i": ["c"],
        "c": ["c"],
    }


async def test_nothing_is_inferred_where_a_sidecar_took_a_part(world):
    world.pod("p", None, init=2, app=2, sidecar=2)
    world.held["d", "p"] = {"c": memory("aa"), "s": memory("bb")}
    await world.look()
    assert world.assignment("p") is None
