"""Wire format of k8s.io/kube-scheduler/extender/v1.

The Go types have no JSON tags, so the JSON names are exactly the names of the Go fields.
"""

from __future__ import annotations

import msgspec

from accelkit.model.pending_pod import PendingPod


class RawNodes(msgspec.Struct):
    """A node list whose items are not decoded, because the nodes that fit are returned unchanged."""

    items: list[msgspec.Raw] | None = None


class Args(msgspec.Struct):
    """ExtenderArgs, which contains node names if nodeCacheCapable is set in the scheduler, otherwise complete nodes."""

    Pod: PendingPod
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
    """HostPriority, without garbage collection because a response contains thousands of these objects."""

    Host: str
    Score: int


class BindingArgs(msgspec.Struct):
    """ExtenderBindingArgs."""

    PodName: str
    PodNamespace: str
    PodUID: str
    Node: str


class BindingResult(msgspec.Struct):
    """ExtenderBindingResult; an empty error means success."""

    Error: str = ""
