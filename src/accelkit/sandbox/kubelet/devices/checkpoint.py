"""The state that the kubelet keeps across its restarts: the devices of each container, and which resources it knew.

A known resource comes back without its plugin, so its devices cannot be allocated until the plugin registers again,
and it is removed when none does. Running pods keep what they hold. The file lies where the real kubelet keeps its own.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from accelkit.sandbox.kubelet.devices.device_manager import DeviceAllocation, DeviceManager
from accelkit.sandbox.kubelet.devices.device_values import AllocateResponse

__all__ = ["CHECKPOINT_NAME", "load_checkpoint", "save_checkpoint"]

CHECKPOINT_NAME = "kubelet_internal_checkpoint"

log = logging.getLogger(__name__)


class _Entry(msgspec.Struct, kw_only=True):
    pod_uid: str
    container: str
    resource: str
    device_ids: list[str]
    response: AllocateResponse


class _Checkpoint(msgspec.Struct, kw_only=True):
    version: int = 1
    resources: list[str]
    entries: list[_Entry]


def save_checkpoint(path: Path, manager: DeviceManager) -> None:
    """Writes what `load_checkpoint` needs, whole or not at all."""
    entries = [
        _Entry(
            pod_uid=pod_uid,
            container=container,
            resource=resource,
            device_ids=sorted(allocation.device_ids),
            response=allocation.response,
        )
        for pod_uid, container, resource, allocation in manager.list_allocations()
    ]
    resources = sorted(manager.list_healthy_devices())
    temporary = path.with_suffix(".new")
    temporary.write_bytes(msgspec.json.encode(_Checkpoint(resources=resources, entries=entries)))
    temporary.replace(path)


def load_checkpoint(path: Path, manager: DeviceManager) -> None:
    """Gives the manager what was saved; without a usable file it starts empty, as the real kubelet does."""
    try:
        checkpoint = msgspec.json.decode(path.read_bytes(), type=_Checkpoint)
    except FileNotFoundError:
        return
    except (OSError, msgspec.MsgspecError) as exc:
        log.warning("checkpoint not read path=%s reason=%s", path, exc)
        return
    for resource in checkpoint.resources:
        manager.restore_resource(resource)
    for entry in checkpoint.entries:
        allocation = DeviceAllocation(frozenset(entry.device_ids), entry.response)
        manager.restore(entry.pod_uid, entry.container, entry.resource, allocation)
