"""Reads the kubelet's own record of devices, which alone tells what plain init containers hold.

The pod resources API leaves them out. A kubelet's device manager keeps what it gave each container in a file beside the
plugins' sockets, and renames every new version into place. Its checksum is over Go's own print of the content, so it is
not compared.
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
# Twice what the finest units of all resources make of a kubelet's lists, which have limits of their own.
_MOST_BYTES: Final = 64 * 2**20

# By the UID under which the kubelet runs a pod, by container.
RecordedDevices = Mapping[str, Mapping[str, ContainerDevices]]


class _Entry(msgspec.Struct, frozen=True, gc=False):
    pod_uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    # By NUMA node; read for our resources alone.
    device_ids: msgspec.Raw = msgspec.field(name="DeviceIDs")


class _Data(msgspec.Struct, frozen=True):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries")


class _Checkpoint(msgspec.Struct, frozen=True):
    data: _Data = msgspec.field(name="Data")


_checkpoint = msgspec.json.Decoder(_Checkpoint)
_device_ids = msgspec.json.Decoder(dict[str, list[str]])


class KubeletCheckpoint:
    """The file of one kubelet, read where it has changed.

    Args:
        root: the host's root folder.
        dialect: whose resource names the node advertises; devices of all others count too.
        readable: 1 where it could be read the last time, else 0.
    """

    def __init__(self, root: Path, dialect: Dialect, readable: Gauge) -> None:
        self._path = root / CHECKPOINT
        self._resources = list_device_resources(dialect)
        self._readable = readable
        self._errors = ErrorReporter(log)
        self._seen: tuple[int, ...] | None = None
        self._devices: RecordedDevices = {}

    def read(self) -> RecordedDevices:
        """Return what containers hold of our resources, those of ended pods too.

        Nothing where it cannot be read, which is told once: what is planned for init containers then stays.
        """
        try:
            self._update()
        except FileNotFoundError:
            # A kubelet that has given nobody devices yet.
            self._forget()
        except (OSError, DevicePluginError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
            self._forget()
            self._errors.report(
                str(exc), f"/{CHECKPOINT} cannot be read: {exc}; cards of init containers are taken as they are written"
            )
        else:
            self._errors.clear()
            self._readable.set(1)
        return self._devices

    def _forget(self) -> None:
        self._seen, self._devices = None, {}
        self._readable.set(0)

    def _update(self) -> None:
        with open_here(self._path) as file:
            status = os.fstat(file.fileno())
            seen = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            if seen == self._seen:
                return
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise DevicePluginError(f"it has more than {_MOST_BYTES} bytes")
        self._devices, self._seen = self._decode(content), seen

    def _decode(self, content: bytes) -> RecordedDevices:
        found: dict[str, dict[str, ContainerDevices]] = defaultdict(dict)
        for entry in _checkpoint.decode(content).data.entries or ():
            if entry.resource in self._resources.memory or entry.resource in self._resources.cards:
                # A device of several NUMA nodes is named with each.
                ids = sorted({each for group in _device_ids.decode(entry.device_ids).values() for each in group})
                of_pod = found[entry.pod_uid]
                had = of_pod.get(entry.container, ContainerDevices())
                of_pod[entry.container] = had.add(ids, whole=entry.resource in self._resources.cards)
        return dict(found)
