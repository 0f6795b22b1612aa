"""Defines the wire format of k8s.io/kube-scheduler/extender/v1.

Its Go types have no JSON tags, so the wire names are Go's field names, exactly.
"""

from __future__ import annotations

import msgspec

from accelkit.model.asked_pod import AskedPod
from accelkit.model.object_meta import ObjectMeta


class RawNodes(msgspec.Struct):
    """A node list whose items stay undecoded: what fits is sent back as it came."""

    items: list[msgspec.Raw] | None = None


class NamedObject(msgspec.Struct):
    """Any object, for its name."""

    metadata: ObjectMeta


class Args(msgspec.Struct):
    """ExtenderArgs: node names where the scheduler's configuration says nodeCacheCapable, else whole nodes."""

    Pod: AskedPod
    Nodes: RawNodes | None = None
    NodeNames: list[str] | None = None


class FilterResult(msgspec.Struct, omit_defaults=True):
    """ExtenderFilterResult."""

    Nodes: RawNodes | None = None
    NodeNames: list[str] | None = None
    FailedNodes: dict[str, str] | None = None
    FailedAndUnresolvableNodes: dict[str, str] | None = None
    Error: str = ""


class HostPriority(msgspec.Struct, gc=False):
    """HostPriority; thousands are made for one answer, and none is in a circle."""

    Host: str
    Score: int


class BindingArgs(msgspec.Struct):
    """ExtenderBindingArgs."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


class BindingResult(msgspec.Struct):
    """ExtenderBindingResult; an empty error is success."""

    Error: str = ""
