"""Reader of facts from NVIDIA's management library: identity, memory and NVLinks of a card.

If the card does not support a call, the result is None, and other sources are used. The library opens the driver's
device nodes below `/dev`. In a container, they exist only if the container runtime provides them or the container is
privileged.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from accelkit.node.discovery.libraries import Library, LibraryState, load_library

NVML_LIBRARY = "libnvidia-ml.so.1"
_CONTROL_NODE = "dev/nvidiactl"
# The maximum number of links that any release of the library supports. A card reports only its existing links.
_MAX_LINKS = 36
# The maximum number of instances that the library supports. A card has at most seven.
_MAX_INSTANCES = 16

T = TypeVar("T")


class NvmlApi(Protocol):
    """The functions of the module `pynvml` that accelkit uses. Handles and records have the module's types."""

    NVMLError: type[Exception]
    nvmlMemory_v2: int  # noqa: N815 - the library's name
    NVML_NVLINK_DEVICE_TYPE_SWITCH: int

    def nvmlInit(self) -> object: ...  # noqa: D102, N802 - the library's name
    def nvmlShutdown(self) -> object: ...  # noqa: D102, N802 - the library's name
    def nvmlSystemGetDriverVersion(self) -> str | bytes: ...  # noqa: D102, N802 - the library's name
    def nvmlDeviceGetHandleByPciBusId(self, bdf: str) -> object: ...  # noqa: D102, N802 - the library's name
    def nvmlDeviceGetUUID(self, handle: object) -> str | bytes: ...  # noqa: D102, N802 - the library's name
    def nvmlDeviceGetName(self, handle: object) -> str | bytes: ...  # noqa: D102, N802 - the library's name
    def nvmlDeviceGetMinorNumber(self, handle: object) -> int: ...  # noqa: D102, N802 - the library's name
    def nvmlDeviceGetMemoryInfo(self, handle: object, version: int | None = None) -> Any: ...  # noqa: D102, N802 - the same
    def nvmlDeviceGetMigMode(self, handle: object) -> Sequence[int]: ...  # noqa: D102, N802 - the library's name
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: object) -> int: ...  # noqa: D102, N802 - the library's name
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: object, index: int) -> object: ...  # noqa: D102, N802 - the same
    def nvmlDeviceGetGpuInstanceId(self, handle: object) -> int: ...  # noqa: D102, N802 - the library's name
    def nvmlDeviceGetComputeInstanceId(self, handle: object) -> int: ...  # noqa: D102, N802 - the library's name
    def nvmlDeviceGetNvLinkState(self, handle: object, link: int) -> int: ...  # noqa: D102, N802 - the library's name
    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: object, link: int) -> int: ...  # noqa: D102, N802 - the same
    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: object, link: int) -> Any: ...  # noqa: D102, N802 - the same


@dataclass(frozen=True, slots=True)
class NvmlInstance:
    """An instance of a card in MIG mode, with amounts in bytes. None means that a value is unknown.

    Attributes:
        name: the model, such as `NVIDIA A100-SXM4-40GB MIG 1g.5gb`.
        gpu_instance: the number that the driver assigned to the GPU instance.
        compute_instance: the number that the driver assigned to the compute instance within the GPU instance.
    """

    uuid: str
    name: str | None = None
    memory_bytes: int | None = None
    reserved_bytes: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class NvmlCard:
    """The facts about one card, with amounts in bytes. None means that a fact is unknown.

    Attributes:
        linked: the number of its NVLinks to each other card, by that card's PCI address.
        switched: whether any of its NVLinks connects to a switch.
        instances: its MIG instances; None if the card is not in MIG mode, or the mode is unknown.
    """

    uuid: str | None = None
    name: str | None = None
    minor: int | None = None
    memory_bytes: int | None = None
    reserved_bytes: int | None = None
    linked: Mapping[str, int] = field(default_factory=dict)
    switched: bool = False
    instances: tuple[NvmlInstance, ...] | None = None


class Nvml:
    """An open session of the library."""

    def __init__(self, api: NvmlApi) -> None:
        self._api = api

    def find_card(self, bdf: str) -> NvmlCard | None:
        """Return the facts about the card at a PCI address; None if the library does not detect the card."""
        api = self._api
        handle = self._call(api.nvmlDeviceGetHandleByPciBusId, bdf)
        if handle is None:
            return None
        memory, reserved = self._read_memory(handle)
        linked, switched = self._read_links(handle)
        return NvmlCard(
            self._call_text(api.nvmlDeviceGetUUID, handle),
            self._call_text(api.nvmlDeviceGetName, handle),
            self._call(api.nvmlDeviceGetMinorNumber, handle),
            memory,
            reserved,
            linked,
            switched,
            self._list_instances(handle),
        )

    def read_driver_version(self) -> str | None:
        """Return the version of NVIDIA's driver."""
        answer = self._call(self._api.nvmlSystemGetDriverVersion)
        return None if answer is None else _decode(answer)

    def _read_memory(self, handle: object) -> tuple[int | None, int | None]:
        memory = self._call(self._api.nvmlDeviceGetMemoryInfo, handle, self._api.nvmlMemory_v2)
        if memory is None:
            # Drivers before release 510 support only the first version of the call.
            memory = self._call(self._api.nvmlDeviceGetMemoryInfo, handle)
        return (None, None) if memory is None else (int(memory.total), getattr(memory, "reserved", None))

    def _list_instances(self, handle: object) -> tuple[NvmlInstance, ...] | None:
        api = self._api
        # Cards without MIG return an error.
        mode = self._call(api.nvmlDeviceGetMigMode, handle)
        count = self._call(api.nvmlDeviceGetMaxMigDeviceCount, handle) if mode and mode[0] else None
        if count is None:
            return None
        found = []
        for index in range(min(count, _MAX_INSTANCES)):
            # The indexes may have gaps if instances were deleted.
            instance = self._call(api.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
            uuid = None if instance is None else self._call_text(api.nvmlDeviceGetUUID, instance)
            if instance is None or uuid is None:
                continue
            memory, reserved = self._read_memory(instance)
            name = self._call_text(api.nvmlDeviceGetName, instance)
            numbers = (api.nvmlDeviceGetGpuInstanceId, api.nvmlDeviceGetComputeInstanceId)
            found.append(NvmlInstance(uuid, name, memory, reserved, *(self._call(each, instance) for each in numbers)))
        return tuple(found)

    def _read_links(self, handle: object) -> tuple[Mapping[str, int], bool]:
        linked, switched = Counter[str](), False
        for link in range(_MAX_LINKS):
            # The call fails for a number without a link, and on cards without any links.
            if not self._call(self._api.nvmlDeviceGetNvLinkState, handle, link):
                continue
            kind = self._call(self._api.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
            remote = self._call(self._api.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            if kind == self._api.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                switched = True
            elif remote is not None:
                linked[to_sysfs_bdf(_decode(remote.busId))] += 1
        return linked, switched

    def _call_text(self, call: Callable[..., str | bytes], handle: object) -> str | None:
        answer = self._call(call, handle)
        return None if answer is None else _decode(answer)

    def _call(self, call: Callable[..., T], *arguments: object) -> T | None:
        try:
            return call(*arguments)
        except self._api.NVMLError:
            return None


@contextmanager
def nvml_session(root: Path) -> Iterator[tuple[Nvml | None, Library]]:
    """Open the library for the duration of the context; yield the library and its state.

    The library is None if the library or the driver is missing.

    Sessions must be short, because handles become invalid when the driver restarts.
    """
    library = load_library(root, NVML_LIBRARY)
    api = load_nvml(root)
    if api is None:
        yield None, library
        return
    try:
        api.nvmlInit()
    except api.NVMLError as exc:
        yield None, replace(library, state=LibraryState.SILENT, reason=_explain(root, exc))
        return
    nvml = Nvml(api)
    try:
        version = nvml.read_driver_version() or library.version
        yield nvml, replace(library, state=LibraryState.WORKS, version=version)
    finally:
        # If the driver was unloaded in the meantime, the session is already closed.
        with suppress(api.NVMLError):
            api.nvmlShutdown()


@contextmanager
def initialize(api: NvmlApi) -> Iterator[bool]:
    """Initialize the library for the duration of the context; yield whether its driver is loaded."""
    try:
        api.nvmlInit()
    except api.NVMLError:
        yield False
        return
    try:
        yield True
    finally:
        # If the driver was unloaded in the meantime, the session is already closed.
        with suppress(api.NVMLError):
            api.nvmlShutdown()


def to_sysfs_bdf(bus_id: str) -> str:
    """Convert a PCI address from the library's format (`00000000:3B:00.0`) to the format of sysfs (`0000:3b:00.0`)."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def load_nvml(root: Path = Path("/")) -> NvmlApi | None:
    """Return the module `pynvml` without initializing it; None if the host below this root has no library."""
    if load_library(root, NVML_LIBRARY).state is not LibraryState.PRESENT:
        return None
    try:
        module: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    api: NvmlApi = module
    return api


def _explain(root: Path, error: Exception) -> str:
    # Distinguish a driver whose device nodes this container cannot open from a missing driver.
    if (root / _CONTROL_NODE).exists():
        try:
            os.close(os.open(f"/{_CONTROL_NODE}", os.O_RDWR))
        except OSError as exc:
            return (
                f"its driver is loaded, but this container cannot open its device nodes (/{_CONTROL_NODE}: "
                f"{exc.strerror}); use a RuntimeClass, CDI or the privileged form"
            )
    return f"its driver does not respond: {error}"


def _decode(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
