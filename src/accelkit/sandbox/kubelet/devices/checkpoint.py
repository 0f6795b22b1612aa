"""The state that the kubelet preserves across restarts: the devices of each container, and the registered resources.

After a restart, a resource has no plugin, so its devices cannot be allocated until the plugin registers again. If the
plugin does not register within the grace period, the resource is removed. The devices of running pods remain allocated.
The file has the same path and format as the checkpoint of a real kubelet, because other programs read it. It does not
contain a checksum, because the checksum depends on Go's formatting.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from accelkit.node._proto import deviceplugin_pb2 as pb
from accelkit.sandbox.kubelet.devices.device_manager import DeviceAllocation, DeviceManager
from accelkit.sandbox.kubelet.devices.plugin_connection import build_response, read_response

__all__ = ["CHECKPOINT_NAME", "load_checkpoint", "save_checkpoint"]

CHECKPOINT_NAME = "kubelet_internal_checkpoint"

# The NUMA node of a device if its plugin does not report a NUMA node.
_NO_NUMA = -1

log = logging.getLogger(__name__)


class _Entry(msgspec.Struct, kw_only=True):
    pod_uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    device_ids: dict[int, list[str]] = msgspec.field(name="DeviceIDs")
    response: bytes = msgspec.field(name="AllocResp")


class _Data(msgspec.Struct, kw_only=True):
    # Go encodes an empty list as null.
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries")
    resources: dict[str, list[str]] = msgspec.field(name="RegisteredDevices")


class _Checkpoint(msgspec.Struct, kw_only=True):
    data: _Data = msgspec.field(name="Data")


def save_checkpoint(path: Path, manager: DeviceManager) -> None:
    """Write the checkpoint atomically."""
    entries = [
        _Entry(
            pod_uid=pod_uid,
            container=container,
            resource=resource,
            device_ids=_group_by_numa(manager, resource, allocation.device_ids),
            response=build_response(allocation.response).SerializeToString(deterministic=True),
        )
        for pod_uid, container, resource, allocation in manager.list_allocations()
    ]
    resources = {name: [device.id for device in devices] for name, devices in manager.list_healthy_devices().items()}
    temporary = path.with_suffix(".new")
    temporary.write_bytes(msgspec.json.encode(_Checkpoint(data=_Data(entries=entries or None, resources=resources))))
    temporary.replace(path)


def load_checkpoint(path: Path, manager: DeviceManager) -> None:
    """Restore the state of the manager. If the file is missing or invalid, the state is empty, as in a real kubelet."""
    try:
        data = msgspec.json.decode(path.read_bytes(), type=_Checkpoint).data
        entries = [(entry, pb.ContainerAllocateResponse.FromString(entry.response)) for entry in data.entries or ()]
    except FileNotFoundError:
        return
    except (OSError, msgspec.MsgspecError, DecodeError) as exc:
        log.warning("checkpoint not read path=%s reason=%s", path, exc)
        return
    for resource in data.resources:
        manager.restore_resource(resource)
    for entry, response in entries:
        ids = frozenset(each for group in entry.device_ids.values() for each in group)
        allocation = DeviceAllocation(ids, read_response(response))
        manager.restore(entry.pod_uid, entry.container, entry.resource, allocation)


def _group_by_numa(manager: DeviceManager, resource: str, device_ids: Iterable[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for device_id in sorted(device_ids):
        device = manager.find_device(resource, device_id)
        for numa in (device.numa if device else ()) or (_NO_NUMA,):
            found[numa].append(device_id)
    return dict(found)
