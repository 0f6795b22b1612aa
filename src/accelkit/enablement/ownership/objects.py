"""Objects that are used to detect owners, with only the fields that are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from accelkit.kube.views.metadata import PartialObject
from accelkit.kube.views.scheduling import SchedulingPodSpec
from accelkit.model.object_meta import ObjectMeta

SYSTEM_NAMESPACE: Final = "kube-system"
# Only a user who may write namespaces can set this label. The default Kubernetes roles for namespace users do not allow
# this.
PRIVILEGED_LABEL: Final = "pod-security.kubernetes.io/enforce"
_PRIVILEGED: Final = "privileged"


class _Template(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: SchedulingPodSpec = msgspec.field(default_factory=SchedulingPodSpec)


class _DaemonSetSpec(msgspec.Struct):
    template: _Template = msgspec.field(default_factory=_Template)


class DaemonSet(msgspec.Struct):
    """A DaemonSet."""

    metadata: ObjectMeta
    spec: _DaemonSetSpec = msgspec.field(default_factory=_DaemonSetSpec)

    def __str__(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def pod_spec(self) -> SchedulingPodSpec:
        """The spec of its pods."""
        return self.spec.template.spec

    def has_labels(self, labels: dict[str, str]) -> bool:
        """Return whether the DaemonSet or its pods have all of these labels."""
        tables = (self.metadata.labels or {}, self.spec.template.metadata.labels or {})
        return any(labels.items() <= table.items() for table in tables)


class _Device(msgspec.Struct, rename="camel"):
    name: str = ""
    node_name: str | None = None


class _SliceSpec(msgspec.Struct, rename="camel"):
    driver: str = ""
    node_name: str | None = None
    devices: list[_Device] | None = None


class ResourceSlice(msgspec.Struct):
    """A ResourceSlice, in any API version."""

    metadata: ObjectMeta
    spec: _SliceSpec = msgspec.field(default_factory=_SliceSpec)

    def list_nodes(self) -> Iterator[str]:
        """Yield the node of each device that belongs to a single node; devices for several nodes are not cards."""
        for device in self.spec.devices or ():
            if name := self.spec.node_name or device.node_name:
                yield name


def list_trusted_namespaces(namespaces: Iterable[PartialObject]) -> frozenset[str]:
    """Return the namespaces whose DaemonSets are sufficient evidence, because only administrators create them."""
    labelled = {
        each.metadata.name for each in namespaces if (each.metadata.labels or {}).get(PRIVILEGED_LABEL) == _PRIVILEGED
    }
    return frozenset({SYSTEM_NAMESPACE, *labelled})
