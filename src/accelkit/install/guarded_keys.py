"""Lists the keys that admission policies let only accelkit's programs write: the policies are made of these."""

from __future__ import annotations

import msgspec

from accelkit.model.keys import CARD_LABEL_PREFIX, INVENTORY_ANNOTATION, LABELS_ANNOTATION, REPAIRED_ANNOTATION
from accelkit.node.labels.sources import FEATURES
from accelkit.vendors.dialects import list_assignment_keys
from accelkit.vendors.profiles import (
    find_runtime_defaults,
    list_runtime_annotations,
    list_runtime_variables,
    load_profiles,
)

# What plug-ins of any vendor's runtime obey: NRI's device injector, of each of its names, CDI in containerd, CRI-O
# by its present key and its deprecated one.
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
        runtime_variables: environment variables by which a container names its cards to a container runtime.
        runtime_defaults: environment variables with which a container runtime gives a container all cards, each with
            the variable that prevents it wherever it is set.
        runtime_annotations: how annotations of pods begin by which plug-ins of a container runtime are told cards.
        node_annotations: annotations of a node that its agent writes, or takes away once it has read them.
        node_labels: labels that it writes in a vendor's name; a number behind one continues a value that is too long.
        node_label_prefixes: how the other labels begin that it writes.
    """

    assignments: tuple[str, ...]
    runtime_variables: tuple[str, ...]
    runtime_defaults: dict[str, str]
    runtime_annotations: tuple[str, ...]
    node_annotations: tuple[str, ...]
    node_labels: tuple[str, ...]
    node_label_prefixes: tuple[str, ...]


def list_guarded_keys() -> GuardedKeys:
    """Return the keys of all profiles and dialects, each list sorted as it was written or by name."""
    labels = {key for profile in load_profiles().values() for key in profile.labels}
    return GuardedKeys(
        assignments=list_assignment_keys(),
        runtime_variables=list_runtime_variables(),
        runtime_defaults=find_runtime_defaults(),
        runtime_annotations=(*_OF_RUNTIMES, *list_runtime_annotations()),
        node_annotations=(INVENTORY_ANNOTATION, LABELS_ANNOTATION, REPAIRED_ANNOTATION),
        node_labels=tuple(sorted(labels)),
        node_label_prefixes=(CARD_LABEL_PREFIX, *FEATURES),
    )
