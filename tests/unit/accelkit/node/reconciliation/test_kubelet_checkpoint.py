import json
import os
import random

import pytest

from accelkit.node.metrics import Metrics
from accelkit.node.reconciliation import kubelet_checkpoint
from accelkit.node.reconciliation.kubelet_checkpoint import CHECKPOINT, KubeletCheckpoint
from accelkit.node.reconciliation.observed_assignment import ContainerDevices
from accelkit.sandbox.kubelet.devices.checkpoint import load_checkpoint, save_checkpoint
from accelkit.sandbox.kubelet.devices.device_manager import DeviceAllocation, DeviceManager
from accelkit.sandbox.kubelet.devices.device_values import AllocateResponse, PluginDevice, PluginMount
from accelkit.vendors.dialects import load_dialect

MEMORY = "accelkit.io/memory"


def entry(uid, container, resource, devices):
    # As the kubelet of Kubernetes 1.29 to 1.35 writes it; AllocResp is the plugin's answer as it came.
    return {
        "PodUID": uid,
        "ContainerName": container,
        "ResourceName": resource,
        "DeviceIDs": devices,
        "AllocResp": "ChIKBEhPTUUSCi9uby9zdWNo",
    }


class Folder:
    def __init__(self, root):
        self.path = root / CHECKPOINT
        self.path.parent.mkdir(parents=True)
        self.metrics = Metrics()
        self.checkpoint = KubeletCheckpoint(root, load_dialect("native"), self.metrics.checkpoint_readable)

    def write(self, entries, **more):
        registered = {"accelkit.io/memory": ["a.1", "a.2"]}
        data = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": registered}, "Checksum": 3660592824, **more}
        self.put(json.dumps(data).encode())

    def put(self, content):
        new = self.path.with_suffix(".new")
        new.write_bytes(content)
        new.replace(self.path)

    def read(self):
        return self.checkpoint.read()

    @property
    def readable(self):
        return self.metrics.registry.get_sample_value("accelkit_kubelet_checkpoint_readable")


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_devices_of_accelkit_resources_are_read_by_pod_and_container(folder):
    folder.write(
        [
            entry("u", "i", "accelkit.io/memory", {"-1": ["a.2"], "0": ["a.1"], "1": ["a.1"]}),
            entry("u", "i", "accelkit.io/cards", {"-1": ["b"]}),
            entry("v", "c", "accelkit.io/cards", {"0": ["c"]}),
            entry("w", "c", "enflame.com/gcu-memory", {"-1": ["a.3"]}),
            entry("v", "c", "example.com/nic", ["as it was before 1.20"]),
        ],
        BootID="of a later kubelet",
    )
    assert folder.read() == {
        "u": {"i": ContainerDevices(["a.1", "a.2"], ["b"])},
        "v": {"c": ContainerDevices(whole=["c"])},
        "w": {"c": ContainerDevices(memory=["a.3"])},
    }
    assert folder.readable == 1


def test_checkpoint_that_is_missing_or_empty_has_no_devices(folder, caplog):
    assert (folder.read(), folder.readable) == ({}, 0)
    folder.write(None)
    assert (folder.read(), folder.readable) == ({}, 1)
    assert caplog.records == []


def test_only_a_changed_file_is_read_again(folder):
    folder.write([entry("u", "i", "accelkit.io/memory", {"-1": ["a.1"]})])
    first = folder.read()
    assert folder.read() is first
    folder.write([entry("u", "i", "accelkit.io/memory", {"-1": ["a.2"]})])
    assert folder.read() == {"u": {"i": ContainerDevices(["a.2"])}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"{}",
        b'{"Data": {}}',
        b'{"Data": {"PodDeviceEntries": [{"PodUID": "u"}]}}',
        json.dumps({"Data": {"PodDeviceEntries": [entry("u", "i", "accelkit.io/memory", ["a.1"])]}}).encode(),
        json.dumps({"Data": {"PodDeviceEntries": [entry("u", "i", "accelkit.io/memory", {"-1": [1]})]}}).encode(),
        b'{"Data": {"PodDeviceEntries": ' + b"[" * 100_000,
    ],
)
def test_unreadable_checkpoint_has_no_devices_and_is_logged_once(folder, caplog, content):
    folder.write([entry("u", "i", "accelkit.io/memory", {"-1": ["a.1"]})])
    assert folder.read()
    folder.put(content)
    for _ in range(3):
        assert (folder.read(), folder.readable) == ({}, 0)
    assert len([each for each in caplog.records if "init containers count with their assigned" in each.message]) == 1
    folder.write([entry("u", "i", "accelkit.io/memory", {"-1": ["a.1"]})])
    assert (folder.read(), folder.readable) == ({"u": {"i": ContainerDevices(["a.1"])}}, 1)


def test_too_large_checkpoint_is_not_read(folder, monkeypatch):
    monkeypatch.setattr(kubelet_checkpoint, "_MOST_BYTES", 100)
    folder.write([entry("u", "i", "accelkit.io/memory", {"-1": ["a.1"]})])
    assert (folder.read(), folder.readable) == ({}, 0)


def test_link_or_pipe_is_not_read_as_checkpoint(folder, tmp_path):
    other = tmp_path / "other"
    folder.write([entry("u", "i", "accelkit.io/memory", {"-1": ["a.1"]})])
    folder.path.rename(other)
    folder.path.symlink_to(other)
    assert (folder.read(), folder.readable) == ({}, 0)
    folder.path.unlink()
    os.mkfifo(folder.path)
    assert (folder.read(), folder.readable) == ({}, 0)


def test_checkpoint_of_simulated_kubelet_is_readable(folder):
    manager = DeviceManager(clock=lambda: 0.0, grace_seconds=1.0, chance=random.Random(1))  # noqa: S311 - no secret
    manager.update_devices(MEMORY, [PluginDevice(id="a.1", numa=(0, 1)), PluginDevice(id="a.2")])
    response = AllocateResponse(
        environment={"K": "v"},
        devices=("/dev/x",),
        mounts=(PluginMount(container_path="/c", host_path="/h", read_only=True),),
        annotations={"a": "b"},
        cdi_devices=("vendor/class=1",),
    )
    manager.restore("u", "i", MEMORY, DeviceAllocation(frozenset({"a.1", "a.2"}), response))
    save_checkpoint(folder.path, manager)
    assert json.loads(folder.path.read_bytes())["Data"]["PodDeviceEntries"][0]["DeviceIDs"] == {
        "0": ["a.1"],
        "1": ["a.1"],
        "-1": ["a.2"],
    }
    assert (folder.read(), folder.readable) == ({"u": {"i": ContainerDevices(["a.1", "a.2"])}}, 1)
    again = DeviceManager(clock=lambda: 0.0, grace_seconds=1.0, chance=random.Random(1))  # noqa: S311 - no secret
    load_checkpoint(folder.path, again)
    assert again.list_allocations() == manager.list_allocations()
