"""The keys that accelkit uses on Kubernetes objects, and its environment variables in containers.

These are labels, annotations, taints, conditions, finalizers and resource names. Each is defined here once.
docs/reference/keys.md lists the writers and readers of each key.
"""

from __future__ import annotations

from typing import Final

# Kubernetes' recommended labels.
NAME_LABEL: Final = "app.kubernetes.io/name"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
PART_OF_LABEL: Final = "app.kubernetes.io/part-of"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
PART_OF_LABELS: Final = {PART_OF_LABEL: "accelkit"}
PART_OF_SELECTOR: Final = f"{PART_OF_LABEL}=accelkit"

# Written by kubelets: on nodes, and on the mirror pods of static pods.
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
CONFIG_HASH_ANNOTATION: Final = "kubernetes.io/config.hash"

# Extended resources of the native dialect: units of memory, and whole cards.
MEMORY_RESOURCE: Final = "accelkit.io/memory"
CARDS_RESOURCE: Final = "accelkit.io/cards"

# On nodes, written by the node agent.
INVENTORY_ANNOTATION: Final = "accelkit.io/inventory"
# The feature labels that the agent has set, by label.
LABELS_ANNOTATION: Final = "accelkit.io/labels"
STAGES_ANNOTATION: Final = "accelkit.io/stages"
CARD_LABEL_PREFIX: Final = "accelkit.io/cards."
CARD_COUNT_LABEL: Final = f"{CARD_LABEL_PREFIX}count"

# On nodes, written by administrators or on their request.
# Cards that take no new pods: an annotation or a label.
CORDON_KEY: Final = "accelkit.io/cordon"
REPAIRED_ANNOTATION: Final = "accelkit.io/mended"

# On nodes, written by the installation.
SHARE_LABEL: Final = "accelkit.io/share"
SHARED: Final = "true"
# The label of another system that accelkit has set on the node. A label that existed before is not removed.
SHARED_AS_ANNOTATION: Final = "accelkit.io/shared-as"
# The unit in which pods on the node got memory before accelkit adopted the node.
FORMER_UNIT_ANNOTATION: Final = "accelkit.io/former-unit"
# Feature labels, joined by commas, that another system had set when the node was first shared.
FOREIGN_LABELS_ANNOTATION: Final = "accelkit.io/foreign-labels"
# Resources of other dialects that agents advertise on a node, or have advertised. On other nodes the same names belong
# to other systems.
ADVERTISED_ANNOTATION: Final = "accelkit.io/advertised"
ROLE_LABEL: Final = "accelkit.io/role"
POOL_LABEL: Final = "accelkit.io/pool"
PARTITIONING_ANNOTATION: Final = "accelkit.io/partitioning"

# On nodes, written by controllers.
# When the extender last announced that cards of the node were freed.
FREED_AT_ANNOTATION: Final = "accelkit.io/freed-at"
DRIVER_KERNEL_LABEL: Final = "accelkit.io/driver-kernel"
# Followed by the name of the vendor.
DRIVER_VENDOR_LABEL_PREFIX: Final = "accelkit.io/driver-vendor."
DRIVER_UPGRADE_ANNOTATION: Final = "accelkit.io/driver-upgrade"
REMEDIATION_ANNOTATION: Final = "accelkit.io/remediation"
UNHEALTHY_TAINT: Final = "accelkit.io/unhealthy"
# On remediation Jobs that reset a card.
RESET_LABEL: Final = "accelkit.io/resets"

# On pods.
# The cards that the extender has assigned.
ASSIGNMENT_ANNOTATION: Final = "accelkit.io/assignment"
# What a pod requests in addition to its limits, written by users.
REQUEST_ANNOTATION: Final = "accelkit.io/request"
# When a new leader fenced the pod: Bindings that name an older version of it fail.
FENCED_AT_ANNOTATION: Final = "accelkit.io/fenced-at"
# A condition: cards are held for the pod.
HOLD_CONDITION: Final = "accelkit.io/cards-held"
# A scheduling gate: the pod waits until its pod group has cards.
POD_GROUP_GATE: Final = "accelkit.io/pod-group"
# On a pod that checks a node: the run that created it. No pod is evicted for it.
CHECK_RUN_ANNOTATION: Final = "accelkit.io/check-run"
# On the static pod of kube-scheduler: the dnsPolicy that was replaced, empty where there was none.
FORMER_DNS_POLICY_ANNOTATION: Final = "accelkit.io/former-dns-policy"

# In the environment of a container with a share: its memory.
MEMORY_VARIABLE: Final = "ACCELKIT_MEMORY_BYTES"

# On all objects that are created for a kernel cache. Labels may hold hashes, so annotations hold the whole names.
CACHE_KEY_PREFIX: Final = "cache.accelkit.io/"
CACHE_NAME_LABEL: Final = "cache.accelkit.io/name"
CACHE_SCOPE_LABEL: Final = "cache.accelkit.io/scope"
CACHE_DIGEST_LABEL: Final = "cache.accelkit.io/digest"
CACHE_KEY_ANNOTATION: Final = "cache.accelkit.io/key"
CACHE_DIGEST_ANNOTATION: Final = "cache.accelkit.io/digest"
CACHE_FINALIZER: Final = "cache.accelkit.io/in-use"
CACHE_PREFETCH_LABEL: Final = "cache.accelkit.io/prefetch"

# On pods that mount kernel caches: the request of the user, and its result.
CACHE_MOUNT_ANNOTATION: Final = "cache.accelkit.io/mount"
CACHE_WRITABLE_ANNOTATION: Final = "cache.accelkit.io/writable"
CACHE_PINNED_ANNOTATION: Final = "cache.accelkit.io/pinned"

# On claims, volumes and Jobs that fill them.
# The namespace of the pods for which a volume is intended.
CACHE_NAMESPACE_ANNOTATION: Final = "cache.accelkit.io/for-namespace"
# Changed so that the provisioner processes the claim again.
CACHE_VOLUME_ANNOTATION: Final = "cache.accelkit.io/volume"
# The message of the provisioner that refused the claim. It outlives the provisioner's Events.
CACHE_REFUSED_ANNOTATION: Final = "cache.accelkit.io/refused"
# The mount path for which a volume was filled.
CACHE_FILLED_ANNOTATION: Final = "cache.accelkit.io/filled-for"
# The number of the attempt of a Job.
CACHE_TRY_ANNOTATION: Final = "cache.accelkit.io/try"
