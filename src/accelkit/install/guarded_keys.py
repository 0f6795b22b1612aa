"""Keys that admission policies reserve for accelkit's components. The policies are generated from these lists."""

from __future__ import annotations

import msgspec

from accelkit.model.keys import CARD_LABEL_PREFIX, INVENTORY_ANNOTATION, LABELS_ANNOTATION, REPAIRED_ANNOTATION
from accelkit.node.labels.sources import FEATURES
from accelkit.vendors.dialects import list_assignment_keys
from accelkit.vendors.profiles import (
    find_runtime_defaults,
    list_container_limits,
    list_runtime_annotations,
    list_runtime_variables,
    load_profiles,
)

# Annotations that container runtimes and their plug-ins process: all names for NRI's device injector, the annotation
# for CDI in containerd, and the current and deprecated keys of CRI-O.
_OF_RUNTIMES = (
    "cdi-devices.noderesource.dev",
    "cdi-devices.nri.containerd.io",
    "cdi-devices.nri.io",
    "cdi.k8s.io/",
    "devices.crio.io",
    "devices.noderesource.dev",
    "devices.nri.containerd.io",
    "devices.nri.io",
    "io.kubernetes.cri-o.Devices",
)


class GuardedKeys(msgspec.Struct, frozen=True):
    """Keys of annotations and labels, and names of environment variables.

    Attributes:
        assignments: pod annotations that a scheduler or a device plugin writes, in all dialects.
        runtime_variables: environment variables that request specific cards from a container runtime.
        runtime_defaults: environment variables that request all cards from a container runtime. The value of each entry
            is the variable that disables this request if it is set.
        runtime_annotations: prefixes of pod annotations that request cards from plug-ins of a container runtime.
        container_limits: pod annotations in which the extender records the amounts of a container, with the placeholder
            `{container}`.
        node_annotations: annotations that the agent writes to its node, or reads and removes from its node.
        node_labels: labels with a vendor's prefix that the agent writes. A long value continues in labels with a
            trailing number.
        node_label_prefixes: prefixes of all other labels that the agent writes.
    """

    assignments: tuple[str, ...]
    runtime_variables: tuple[str, ...]
    runtime_defaults: dict[str, str]
    runtime_annotations: tuple[str, ...]
    container_limits: tuple[str, ...]
    node_annotations: tuple[str, ...]
    node_labels: tuple[str, ...]
    node_label_prefixes: tuple[str, ...]


def list_guarded_keys() -> GuardedKeys:
    """Return the keys of all profiles and dialects. Each list has a stable order."""
    labels = {key for profile in load_profiles().values() for key in profile.labels}
    return GuardedKeys(
        assignments=list_assignment_keys(),
        runtime_variables=list_runtime_variables(),
        runtime_defaults=find_runtime_defaults(),
        runtime_annotations=(*_OF_RUNTIMES, *list_runtime_annotations()),
        container_limits=list_container_limits(),
        node_annotations=(INVENTORY_ANNOTATION, LABELS_ANNOTATION, REPAIRED_ANNOTATION),
        node_labels=tuple(sorted(labels)),
        node_label_prefixes=(CARD_LABEL_PREFIX, *FEATURES),
    )
