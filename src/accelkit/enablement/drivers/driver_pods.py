"""Driver pods, with only the fields that accelkit reads."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.kube.views.pod import ExplainedPod, PlacedSpec

# The component label of the per-kernel DaemonSets and their pods. It differs from the label of other objects, because
# these DaemonSets have a separate pruning rule.
COMPONENT: Final = "driver-container"


class _Container(msgspec.Struct):
    name: str = ""
    image: str = ""


class _Spec(PlacedSpec, rename="camel"):
    containers: list[_Container] = msgspec.field(default_factory=list)


class DriverPod(ExplainedPod):
    """A pod of a driver DaemonSet."""

    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def image(self) -> str:
        """The image of the driver container."""
        return next((each.image for each in self.spec.containers if each.name == "driver"), "")

    @property
    def started(self) -> bool:
        """Whether the pod's startup probe has passed and the pod is not being deleted."""
        return self.ready and self.metadata.deletion_timestamp is None
