"""The data types of the device manager, without I/O.

`PluginCalls` is the interface to a connected plugin. The gRPC connection and the tests implement this interface.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec

__all__ = [
    "AllocateResponse",
    "ContainerKind",
    "DeviceRequest",
    "NodeResources",
    "PluginCalls",
    "PluginDevice",
    "PluginMount",
    "PluginOptions",
    "is_extended_resource_name",
]

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_SUBDOMAIN_LENGTH = 253
# Quotas use the resource name with this prefix, so the prefixed name must also be valid.
_QUOTA_PREFIX = "requests."


class ContainerKind(StrEnum):
    """The kind of a container, which determines how long its devices remain allocated."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, kw_only=True)
class PluginDevice:
    """A device from the list of a plugin. `numa` contains its NUMA nodes, if the plugin reports them."""

    id: str
    healthy: bool = True
    numa: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PluginOptions:
    """A plugin's response to GetDevicePluginOptions."""

    preferred: bool = False
    pre_start: bool = False


@dataclass(frozen=True, kw_only=True)
class DeviceRequest:
    """The request of one container. `limits` contains the number of devices of each resource."""

    name: str
    kind: ContainerKind
    limits: Mapping[str, int]


class PluginMount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A mount that a plugin requests from the kubelet."""

    container_path: str
    host_path: str
    read_only: bool = False


class AllocateResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin's response to Allocate for one container. `devices` contains paths on the host."""

    environment: dict[str, str] = {}
    devices: tuple[str, ...] = ()
    mounts: tuple[PluginMount, ...] = ()
    annotations: dict[str, str] = {}
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NodeResources:
    """Device counts for the node's status. `removed` contains the resources removed since the previous call."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    removed: frozenset[str]


class PluginCalls(Protocol):
    """The calls to one connected plugin. Each call raises DevicePluginError on failure."""

    async def prefer(self, *, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """Call GetPreferredAllocation; return the preferred device IDs, which are not binding."""

    async def allocate(self, device_ids: Sequence[str]) -> AllocateResponse:
        """Call Allocate; return the settings for a container that uses these devices."""

    async def pre_start(self, device_ids: Sequence[str]) -> None:
        """Call PreStartContainer before a container starts."""


def is_extended_resource_name(name: str) -> bool:
    """Return whether `name` is a valid name of an extended resource in Kubernetes, such as `accelkit.io/memory`."""
    prefix, slash, rest = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith(_QUOTA_PREFIX):
        return False
    return (
        len(_QUOTA_PREFIX + prefix) <= _SUBDOMAIN_LENGTH
        and _SUBDOMAIN.fullmatch(prefix) is not None
        and _NAME.fullmatch(rest) is not None
    )
