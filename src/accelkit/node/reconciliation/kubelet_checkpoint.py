"""The kubelet's device checkpoint, which is the only source for the devices of plain init containers.

The pod resources API omits these devices. The kubelet's device manager stores the devices of each container in a file
in the folder of the plugins' sockets, and replaces this file atomically. The checksum in the file is computed from the
representation of the content that Go prints, so it is not verified.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import Gauge

from accelkit.errors import DevicePluginError
from accelkit.logs import ErrorReporter
from accelkit.node.discovery.sysfs import open_here
from accelkit.node.kubelet import PLUGIN_FOLDER
from accelkit.node.reconciliation.observed_assignment import ContainerDevices
from accelkit.vendors.counted_dialects import list_device_resources
from accelkit.vendors.dialect import Dialect

log = logging.getLogger(__name__)

CHECKPOINT: Final = PLUGIN_FOLDER / "kubelet_internal_checkpoint"
# Twice the size that the file has if the lists of all resources, in the finest units, reach the kubelet's limits.
_MOST_BYTES: Final = 64 * 2**20

# Keyed by the UID that the kubelet uses for a pod, and then by container.
RecordedDevices = Mapping[str, Mapping[str, ContainerDevices]]


class _Entry(msgspec.Struct, frozen=True, gc=False):
    pod_uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    # Keyed by NUMA node. Only the IDs of accelkit's resources are decoded.
    device_ids: msgspec.Raw = msgspec.field(name="DeviceIDs")


class _Data(msgspec.Struct, frozen=True):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries")


class _Checkpoint(msgspec.Struct, frozen=True):
    data: _Data = msgspec.field(name="Data")


_checkpoint = msgspec.json.Decoder(_Checkpoint)
_device_ids = msgspec.json.Decoder(dict[str, list[str]])


class KubeletCheckpoint:
    """Reader of a kubelet's checkpoint file. The file is read again after it has changed.

    Args:
        root: the host's root folder.
        dialect: the dialect whose resources the node offers; devices of all other dialects are also read.
        readable: the metric that is 1 if the last read succeeded, and 0 otherwise.
    """

    def __init__(self, root: Path, dialect: Dialect, readable: Gauge) -> None:
        self._path = root / CHECKPOINT
        self._resources = list_device_resources(dialect)
        self._readable = readable
        self._errors = ErrorReporter(log)
        self._file_version: tuple[int, ...] | None = None
        self._devices: RecordedDevices = {}

    def read(self) -> RecordedDevices:
        """Return the allocated devices of accelkit's resources, including devices of terminated pods.

        If the file cannot be read, log the error once and return no devices. In this case, the assignments of init
        containers do not change.
        """
        try:
            self._update()
        except FileNotFoundError:
            # The kubelet has not allocated devices yet.
            self._discard()
        except (OSError, DevicePluginError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
            self._discard()
            self._errors.report(
                str(exc), f"cannot read /{CHECKPOINT}: {exc}; init containers count with their assigned devices"
            )
        else:
            self._errors.clear()
            self._readable.set(1)
        return self._devices

    def _discard(self) -> None:
        self._file_version, self._devices = None, {}
        self._readable.set(0)

    def _update(self) -> None:
        with open_here(self._path) as file:
            status = os.fstat(file.fileno())
            version = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            if version == self._file_version:
                return
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise DevicePluginError(f"it is larger than {_MOST_BYTES} bytes")
        self._devices, self._file_version = self._decode(content), version

    def _decode(self, content: bytes) -> RecordedDevices:
        found: dict[str, dict[str, ContainerDevices]] = defaultdict(dict)
        for entry in _checkpoint.decode(content).data.entries or ():
            if entry.resource in self._resources.memory or entry.resource in self._resources.cards:
                # A device that belongs to several NUMA nodes is listed under each of them.
                ids = sorted({each for group in _device_ids.decode(entry.device_ids).values() for each in group})
                of_pod = found[entry.pod_uid]
                before = of_pod.get(entry.container, ContainerDevices())
                of_pod[entry.container] = before.add(ids, whole=entry.resource in self._resources.cards)
        return dict(found)
