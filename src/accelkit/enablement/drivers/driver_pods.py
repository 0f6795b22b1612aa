"""Pods of drivers, with the fields that are read."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.model.object_meta import ObjectMeta

# The component of the DaemonSets of kernels and their pods. It differs from that of the other objects, so that a run
# prunes these by their own rule.
COMPONENT: Final = "driver-container"


class _Container(msgspec.Struct):
    name: str = ""
    image: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    containers: list[_Container] = msgspec.field(default_factory=list)


class _Condition(msgspec.Struct):
    type: str
    status: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class DriverPod(msgspec.Struct):
    """A pod of a driver's DaemonSet."""

    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def image(self) -> str:
        """The image of the container with the driver."""
        return next((each.image for each in self.spec.containers if each.name == "driver"), "")

    @property
    def ready(self) -> bool:
        """Whether the startup probe of the pod has passed, and it is not being deleted."""
        ready = any(each.type == "Ready" and each.status == "True" for each in self.status.conditions or ())
        return ready and self.metadata.deletion_timestamp is None
