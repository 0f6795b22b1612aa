from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from fake_api.server import FakeApi

from accelkit.kube.events import Events
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.pod import Pod
from accelkit.node.discovery import FoundCard
from accelkit.node.metrics import Metrics
from accelkit.node.pods import NodePods
from accelkit.node.processes.monitor import ProcessMonitor
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.profiles import load_profiles

GIB = 2**30
BDF = "0000:03:00.0"
CARD = FoundCard(Card("a", "amd", "m", 16 * GIB, bdf=BDF), 0, 0, load_profiles()["amd"], render=128)


class Host:
    """A node's processes and pods, and what was told of them."""

    def __init__(self, root):
        self.root = root
        self.api = FakeApi()
        self.metrics = Metrics()
        self.pods = NodePods(self.api, "n", load_dialect("native"))
        self.now = 0.0
        self.monitor = ProcessMonitor(
            root, pods=self.pods, events=Events(self.api, "agent", "n"), metrics=self.metrics, clock=lambda: self.now
        )
        (root / "proc").mkdir()
        self.process(1, "init", pod="")

    @property
    def events(self):
        events = [request.body for request in self.api.done]
        return [(each["involvedObject"]["name"], each["reason"], each["message"]) for each in events]

    def process(self, pid, command, *, pod, gib=None):
        """A process that holds the card where `gib` says how much of it."""
        folder = self.root / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "fdinfo").mkdir()
        (folder / "comm").write_text(f"{command}\n")
        where = f"/kubepods.slice/kubepods-pod{pod.replace('-', '_')}.slice/cri-x.scope" if pod else "/system.slice"
        (folder / "cgroup").write_text(f"0::{where}\n")
        if gib is not None:
            (folder / "fd" / "4").symlink_to("/dev/dri/renderD128")
            info = (
                f"drm-driver:\tamdgpu\ndrm-client-id:\t{pid}\ndrm-pdev:\t{BDF}\ndrm-memory-vram:\t{gib * 2**20} KiB\n"
            )
            (folder / "fdinfo" / "4").write_text(info)

    def pod(self, uid, gib):
        assignment = Assignment({"c": (Share("a", gib * GIB),)})
        metadata = {
            "name": f"pod-{uid[:1]}",
            "namespace": "d",
            "uid": uid,
            "annotations": {ASSIGNMENT_ANNOTATION: encode_assignment(assignment)},
        }
        self.pods.take(msgspec.convert({"metadata": metadata, "spec": {"containers": [{"name": "c"}]}}, Pod))

    async def look(self, card=CARD):
        self.now += 100
        await self.monitor.observe([card])

    def with_dmem(self):
        """Give the pod a cgroup with the controller, and the card a region; return the file of its limits."""
        folder = self.root / f"sys/fs/cgroup/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice"
        folder.mkdir(parents=True)
        (folder / "dmem.max").write_text("")
        (self.root / "sys/fs/cgroup/dmem.capacity").write_text(f"drm/{BDF}/vram0 17179869184\n")
        return folder / "dmem.max"

    def over(self, name):
        labels = {"namespace": "d", "pod": name, "card": "a"}
        return self.metrics.registry.get_sample_value("accelkit_over_use_bytes", labels)


POD = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


async def test_a_pod_that_takes_more_than_its_share_is_told_of_once_and_counted(host):
    host.pod(POD, 4)
    host.process(7, "train", pod=POD, gib=6)
    for _ in range(2):
        await host.look()
    assert host.events == [("pod-1", "MemoryOverUse", "uses 6 GiB of card a, of which it was given 4 GiB")]
    assert host.over("pod-1") == 2 * GIB
    assert host.monitor.strange_processes == ()


async def test_a_pod_within_its_share_is_left_alone(host):
    host.pod(POD, 8)
    host.process(7, "train", pod=POD, gib=6)
    await host.look()
    assert (host.events, host.over("pod-1")) == ([], None)


async def test_a_process_of_no_pod_is_strange_and_one_of_a_pod_without_cards_is_not(host):
    host.pods.take(msgspec.convert({"metadata": {"name": "m", "namespace": "d", "uid": POD}}, Pod))
    host.process(7, "monitor", pod=POD, gib=0)
    host.process(8, "miner", pod="", gib=3)
    await host.look()
    assert [(each.card, each.pid, each.command, each.memory_bytes) for each in host.monitor.strange_processes] == [
        ("a", 8, "miner", 3 * GIB)
    ]


async def test_without_processes_to_see_nobody_is_called_strange_or_harmless(host, caplog):
    caplog.set_level("INFO")
    (host.root / "proc").rename(host.root / "elsewhere")
    for _ in range(2):
        await host.look()
    assert host.monitor.strange_processes is None
    assert len([record for record in caplog.records if "not compared" in record.message]) == 1


async def test_between_two_looks_some_time_passes(host):
    await host.look()
    host.process(8, "miner", pod="", gib=3)
    await host.monitor.observe([CARD])
    assert host.monitor.strange_processes == ()


async def test_what_keeps_a_pod_within_its_memory_is_known_and_what_does_not_is_not_claimed(host):
    host.pod(POD, 4)
    await host.look()
    assert host.monitor.enforced == {}
    limits = host.with_dmem()
    await host.look()
    assert host.monitor.enforced == {("d", "pod-1"): "dmem"}
    assert limits.read_text() == f"drm/{BDF}/vram0 {4 * GIB}\n"


async def test_a_card_whose_profile_does_not_name_dmem_is_not_limited_by_it(host):
    host.pod(POD, 4)
    limits = host.with_dmem()
    await host.look(replace(CARD, profile=msgspec.structs.replace(CARD.profile, enforcement=())))
    assert (host.monitor.enforced, limits.read_text()) == ({}, "")
