"""The keys that accelkit uses on Kubernetes objects, and the environment variables that it sets in containers.

The keys are labels, annotations, taints, conditions, finalizers and resource names. Each key is defined only here.
docs/reference/keys.md lists the writers and readers of each key.
"""

from __future__ import annotations

from typing import Final

# The labels that Kubernetes recommends.
NAME_LABEL: Final = "app.kubernetes.io/name"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
PART_OF_LABEL: Final = "app.kubernetes.io/part-of"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
PART_OF_LABELS: Final = {PART_OF_LABEL: "accelkit"}
PART_OF_SELECTOR: Final = f"{PART_OF_LABEL}=accelkit"

# Keys that kubelets write on nodes and on the mirror pods of static pods.
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
CONFIG_HASH_ANNOTATION: Final = "kubernetes.io/config.hash"

# Extended resources of the native dialect: units of memory, and whole cards.
MEMORY_RESOURCE: Final = "accelkit.io/memory"
CARDS_RESOURCE: Final = "accelkit.io/cards"

# Keys on nodes that the node agent writes.
INVENTORY_ANNOTATION: Final = "accelkit.io/inventory"
# The feature labels that the agent has set, with their values.
LABELS_ANNOTATION: Final = "accelkit.io/labels"
STAGES_ANNOTATION: Final = "accelkit.io/stages"
CARD_LABEL_PREFIX: Final = "accelkit.io/cards."
CARD_COUNT_LABEL: Final = f"{CARD_LABEL_PREFIX}count"

# Keys on nodes that administrators write, or that are written at their request.
# The cards that accept no new pods, as an annotation or a label.
CORDON_KEY: Final = "accelkit.io/cordon"
REPAIRED_ANNOTATION: Final = "accelkit.io/mended"

# Keys on nodes that the installation writes.
SHARE_LABEL: Final = "accelkit.io/share"
SHARED: Final = "true"
# The label of another system that accelkit has set on the node. A label that already existed is not removed.
SHARED_AS_ANNOTATION: Final = "accelkit.io/shared-as"
# The unit in which memory was allocated to pods on the node before accelkit adopted the node.
FORMER_UNIT_ANNOTATION: Final = "accelkit.io/former-unit"
# Feature labels, joined by commas, that another system had set when the node was first shared.
FOREIGN_LABELS_ANNOTATION: Final = "accelkit.io/foreign-labels"
# The resources of other dialects that agents advertise, or have advertised, on a node. On other nodes, the same names
# belong to other systems.
ADVERTISED_ANNOTATION: Final = "accelkit.io/advertised"
ROLE_LABEL: Final = "accelkit.io/role"
POOL_LABEL: Final = "accelkit.io/pool"
PARTITIONING_ANNOTATION: Final = "accelkit.io/partitioning"

# Keys on nodes that controllers write.
# The time when the extender last announced that cards of the node were freed.
FREED_AT_ANNOTATION: Final = "accelkit.io/freed-at"
DRIVER_KERNEL_LABEL: Final = "accelkit.io/driver-kernel"
# A prefix that is followed by the name of the vendor.
DRIVER_VENDOR_LABEL_PREFIX: Final = "accelkit.io/driver-vendor."
DRIVER_UPGRADE_ANNOTATION: Final = "accelkit.io/driver-upgrade"
REMEDIATION_ANNOTATION: Final = "accelkit.io/remediation"
UNHEALTHY_TAINT: Final = "accelkit.io/unhealthy"
# Keys on remediation Jobs that reset a card.
RESET_LABEL: Final = "accelkit.io/resets"

# Keys on pods.
# The cards that the extender has assigned.
ASSIGNMENT_ANNOTATION: Final = "accelkit.io/assignment"
# The request of a pod in addition to its limits, which users write.
REQUEST_ANNOTATION: Final = "accelkit.io/request"
# The time when a new leader fenced the pod. Bindings that refer to an older version of the pod fail.
FENCED_AT_ANNOTATION: Final = "accelkit.io/fenced-at"
# A condition of a pod for which cards are held.
HOLD_CONDITION: Final = "accelkit.io/cards-held"
# A scheduling gate of a pod that waits until its pod group gets cards.
POD_GROUP_GATE: Final = "accelkit.io/pod-group"
# On a check pod: the run that created the pod. No other pod is evicted for a check pod.
CHECK_RUN_ANNOTATION: Final = "accelkit.io/check-run"
# On the static pod of kube-scheduler: the dnsPolicy that was replaced; empty if there was none.
FORMER_DNS_POLICY_ANNOTATION: Final = "accelkit.io/former-dns-policy"

# The environment variable with the memory of a container's share.
MEMORY_VARIABLE: Final = "ACCELKIT_MEMORY_BYTES"

# Keys on all objects that are created for a kernel cache. A label may contain a hash, so an annotation contains the
# full name.
CACHE_KEY_PREFIX: Final = "cache.accelkit.io/"
CACHE_NAME_LABEL: Final = "cache.accelkit.io/name"
CACHE_SCOPE_LABEL: Final = "cache.accelkit.io/scope"
CACHE_DIGEST_LABEL: Final = "cache.accelkit.io/digest"
CACHE_KEY_ANNOTATION: Final = "cache.accelkit.io/key"
CACHE_DIGEST_ANNOTATION: Final = "cache.accelkit.io/digest"
CACHE_FINALIZER: Final = "cache.accelkit.io/in-use"
CACHE_PREFETCH_LABEL: Final = "cache.accelkit.io/prefetch"

# Keys on pods that mount kernel caches: the request of the user, and its result.
CACHE_MOUNT_ANNOTATION: Final = "cache.accelkit.io/mount"
CACHE_WRITABLE_ANNOTATION: Final = "cache.accelkit.io/writable"
CACHE_PINNED_ANNOTATION: Final = "cache.accelkit.io/pinned"

# Keys on claims and volumes, and on the Jobs that fill volumes.
# The namespace of the pods for which a volume is intended.
CACHE_NAMESPACE_ANNOTATION: Final = "cache.accelkit.io/for-namespace"
# A value that is changed so that the provisioner processes the claim again.
CACHE_VOLUME_ANNOTATION: Final = "cache.accelkit.io/volume"
# The error message from the provisioner that rejected the claim. It is retained longer than the provisioner's Events.
CACHE_REFUSED_ANNOTATION: Final = "cache.accelkit.io/refused"
# The mount path for which the volume was filled.
CACHE_FILLED_ANNOTATION: Final = "cache.accelkit.io/filled-for"
# The number of the attempt of a Job.
CACHE_TRY_ANNOTATION: Final = "cache.accelkit.io/try"
