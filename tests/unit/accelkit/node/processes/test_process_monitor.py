from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest
from fake_api.server import FakeApi
from standin_nvml import StandinCard
from support.events import list_events
from support.host_processes import write_process
from support.pods import read_pod

from accelkit.errors import DevicePluginError
from accelkit.kube.events import Events
from accelkit.model.assignment import Share
from accelkit.model.card import Card
from accelkit.model.pod import Pod
from accelkit.node.discovery import FoundCard
from accelkit.node.metrics import Metrics
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePods
from accelkit.node.processes import scan
from accelkit.node.processes.monitor import ProcessMonitor
from accelkit.node.processes.passed_on import PassedScan, pass_on
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
        self.pods.set_cards(NodeCards({"a": CARD.card}, GIB))
        self.now = 0.0
        self.shared = root / "shared"
        self.shared.mkdir()
        self.monitor = ProcessMonitor(
            root,
            pods=self.pods,
            events=Events(self.api, "agent", "n"),
            metrics=self.metrics,
            scan=PassedScan(self.shared, clock=lambda: self.now),
            clock=lambda: self.now,
        )
        (root / "proc").mkdir()
        self.process(1, "init", pod="")

    @property
    def events(self):
        return list_events(self.api)

    def process(self, pid, command, *, pod, gib=None):
        """A process that holds the card where `gib` says how much of it."""
        where = f"/kubepods.slice/kubepods-pod{pod.replace('-', '_')}.slice/cri-x.scope" if pod else "/system.slice"
        lines = ["drm-driver:\tamdgpu", f"drm-client-id:\t{pid}", f"drm-pdev:\t{BDF}"]
        lines.append(f"drm-memory-vram:\t{gib} GiB")
        files = {} if gib is None else {4: ("/dev/dri/renderD128", "\n".join(lines))}
        write_process(self.root, pid, command, cgroup=where, files=files)

    def pod(self, uid, gib):
        shares = {"c": (Share("a", gib * GIB),)}
        self.pods.take(read_pod(f"pod-{uid[:1]}", memory=str(gib), assigned=shares, metadata={"uid": uid}))

    async def look(self, card=CARD, *, scan=True):
        """Look, the scan beside it having looked too."""
        self.now += 100
        await self.monitor.observe([card])
        if scan:
            with suppress(DevicePluginError):
                pass_on(self.root, self.shared, clock=lambda: self.now + 100)
            self.now += 100
            await self.monitor.observe([card])

    def over(self, name):
        labels = {"namespace": "d", "pod": name, "card": "a"}
        return self.metrics.registry.get_sample_value("accelkit_over_use_bytes", labels)


POD = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


async def test_over_use_is_reported_by_one_event_and_metric(host):
    host.pod(POD, 4)
    host.process(7, "train", pod=POD, gib=6)
    for _ in range(2):
        await host.look()
    assert host.events == [("pod-1", "MemoryOverUse", "uses 6 GiB of card a, but its share is 4 GiB")]
    assert host.over("pod-1") == 2 * GIB
    assert host.monitor.strange_processes == ()


async def test_pod_with_too_many_open_files_is_logged_once_and_scan_continues(host, monkeypatch, caplog):
    monkeypatch.setattr(scan, "_MAX_FILES", 1)
    host.pod(POD, 4)
    host.process(7, "train", pod=POD, gib=1)
    host.process(8, "copies", pod=POD, gib=1)
    host.process(9, "miner", pod="", gib=3)
    for _ in range(2):
        await host.look()
    assert [each.command for each in host.monitor.strange_processes] == ["miner"]
    assert caplog.text.count("pod d/pod-1 has more open files than the scan reads") == 1


async def test_strange_processes_are_unknown_if_unknown_pod_was_not_fully_read(host, monkeypatch):
    monkeypatch.setattr(scan, "_MAX_FILES", 1)
    host.process(7, "left", pod=POD, gib=1)
    host.process(8, "over", pod=POD, gib=1)
    await host.look()
    assert host.monitor.strange_processes is None


async def test_process_outside_pods_is_strange_but_process_of_pod_is_not(host):
    host.pods.take(msgspec.convert({"metadata": {"name": "m", "namespace": "d", "uid": POD}}, Pod))
    host.process(7, "monitor", pod=POD, gib=0)
    host.process(8, "miner", pod="", gib=3)
    await host.look()
    assert [(each.card, each.pid, each.command, each.memory_bytes) for each in host.monitor.strange_processes] == [
        ("a", 8, "miner", 3 * GIB)
    ]


async def test_strange_processes_are_unknown_without_proc(host, caplog):
    caplog.set_level("INFO")
    (host.root / "proc").rename(host.root / "elsewhere")
    for _ in range(2):
        await host.look()
    assert host.monitor.strange_processes is None
    assert len([record for record in caplog.records if "cannot compare" in record.message]) == 1


async def test_observe_is_skipped_within_interval(host):
    await host.look()
    host.process(8, "miner", pod="", gib=3)
    pass_on(host.root, host.shared, clock=lambda: host.now)
    await host.monitor.observe([CARD])
    assert host.monitor.strange_processes == ()


@pytest.mark.parametrize("late", [61, -1])
async def test_outdated_or_future_scan_is_ignored(host, caplog, late):
    caplog.set_level("INFO")
    host.pod(POD, 4)
    host.process(7, "train", pod=POD, gib=6)
    await host.look(scan=False)
    pass_on(host.root, host.shared, clock=lambda: host.now + 100 - late)
    await host.look(scan=False)
    assert (host.monitor.strange_processes, host.events) == (None, [])
    assert "cannot scan the processes on these cards: a" in caplog.text


async def test_invalid_scan_is_ignored(host):
    await host.look()
    (host.shared / "processes.json").write_text("[")
    await host.look(scan=False)
    assert host.monitor.strange_processes is None


@pytest.fixture
def nvidia(host, standin_nvml):
    """A card of NVIDIA's, whose processes only the library reports, without a scan."""
    standin_nvml.cards.append(StandinCard(BDF, "a"))
    standin_nvml.write()

    async def look(*processes):
        standin_nvml.processes = [(BDF, pid, gib * GIB, "compute") for pid, gib in processes]
        standin_nvml.write()
        await host.look(replace(CARD, profile=load_profiles()["nvidia"]), scan=False)

    return look


async def test_over_use_of_nvidia_card_is_found_without_process_scan(host, nvidia):
    host.pod(POD, 4)
    host.process(7, "train", pod=POD)
    host.process(8, "miner", pod="")
    await nvidia((7, 6), (8, 3))
    assert host.events == [("pod-1", "MemoryOverUse", "uses 6 GiB of card a, but its share is 4 GiB")]
    assert [(each.pid, each.command) for each in host.monitor.strange_processes] == [(8, "miner")]


async def test_ended_process_in_nvml_report_is_ignored(host, nvidia):
    await nvidia((99, 6))
    assert (host.events, host.monitor.strange_processes) == ([], ())


async def test_strange_processes_are_unknown_if_nvml_fails(host, nvidia, standin_nvml):
    standin_nvml.failures["nvmlDeviceGetComputeRunningProcesses_v3"] = 3
    await nvidia((7, 6))
    assert host.monitor.strange_processes is None
