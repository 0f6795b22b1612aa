"""The values the device manager works with; no I/O.

`PluginCalls` is what the manager needs of a connected plugin, so that tests and the gRPC side can both be one.
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
# The API server also counts these resources in quotas, under this prefix, and the name must stay valid with it.
_QUOTA_PREFIX = "requests."


class ContainerKind(StrEnum):
    """The kind of a container, which decides for how long it holds its devices."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, kw_only=True)
class PluginDevice:
    """One device as its plugin lists it; `numa` holds the NUMA nodes, none where the plugin tells none."""

    id: str
    healthy: bool = True
    numa: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PluginOptions:
    """What a plugin answered to GetDevicePluginOptions."""

    preferred: bool = False
    pre_start: bool = False


@dataclass(frozen=True, kw_only=True)
class DeviceRequest:
    """What one container requests: `limits` maps a resource to a number of devices."""

    name: str
    kind: ContainerKind
    limits: Mapping[str, int]


class PluginMount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A mount that a plugin asks the kubelet for."""

    container_path: str
    host_path: str
    read_only: bool = False


class AllocateResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin's answer to Allocate for one container; `devices` are host paths."""

    environment: dict[str, str] = {}
    devices: tuple[str, ...] = ()
    mounts: tuple[PluginMount, ...] = ()
    annotations: dict[str, str] = {}
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NodeResources:
    """Numbers of devices for the node's status; `removed` are gone since the last time and become 0 once."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    removed: frozenset[str]


class PluginCalls(Protocol):
    """The calls to one connected plugin; each raises DevicePluginError."""

    async def prefer(self, *, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """Calls GetPreferredAllocation; the answer is a hint."""

    async def allocate(self, device_ids: Sequence[str]) -> AllocateResponse:
        """Calls Allocate; returns what a container that gets these devices needs."""

    async def pre_start(self, device_ids: Sequence[str]) -> None:
        """Calls PreStartContainer, before a container starts."""


def is_extended_resource_name(name: str) -> bool:
    """Tells whether Kubernetes takes `name` as that of an extended resource, such as `accelkit.io/memory`."""
    prefix, slash, rest = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith(_QUOTA_PREFIX):
        return False
    return (
        len(_QUOTA_PREFIX + prefix) <= _SUBDOMAIN_LENGTH
        and _SUBDOMAIN.fullmatch(prefix) is not None
        and _NAME.fullmatch(rest) is not None
    )
