"""Keys that admission policies reserve for accelkit's programs. The policies are generated from these lists."""

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

# Annotations that container runtime plug-ins act on: those of NRI's device injector under each of its names, of CDI in
# containerd, and of CRI-O with its current and its deprecated key.
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
    """Keys of annotations, labels and environment variables.

    Attributes:
        assignments: annotations of pods that a scheduler or a device plugin writes, of all dialects.
        runtime_variables: environment variables with which a container requests specific cards from a container
            runtime.
        runtime_defaults: environment variables that make a container runtime give a container all cards, each with the
            variable that prevents this if it is set.
        runtime_annotations: prefixes of pod annotations that request cards from the plug-ins of a container runtime.
        container_limits: pod annotations, with a placeholder `{container}`, in which the extender records a
            container's amounts.
        node_annotations: annotations that the agent writes to its node, or removes from it after reading them.
        node_labels: labels that the agent writes under a vendor's name; a label with a trailing number continues a long
            value.
        node_label_prefixes: prefixes of the other labels that the agent writes.
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
    """Return the keys of all profiles and dialects, each list in a stable order."""
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
