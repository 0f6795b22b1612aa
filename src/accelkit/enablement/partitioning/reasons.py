"""Reasons that prevent a partition: codes for programs, next actions for administrators."""

from __future__ import annotations

from typing import Final

LABEL_OF_ANOTHER: Final = "LabelOfAnother"
RECORD_UNREADABLE: Final = "RecordUnreadable"
TWO_ROLES: Final = "TwoRoles"
UNKNOWN_NODE: Final = "UnknownNode"
NOT_PARTITIONED: Final = "NotPartitioned"
NO_NODE_LEFT: Final = "NoNodeLeft"
OBJECT_OF_ANOTHER: Final = "ObjectOfAnother"
SHARES_REPELLED: Final = "SharesRepelled"
ADMISSION_UNKNOWN: Final = "AdmissionUnknown"
TOLERATION_MISSING: Final = "TolerationMissing"

# By code, the next action.
REASONS: Final[dict[str, str]] = {
    LABEL_OF_ANOTHER: "remove that label, which accelkit did not write, or exclude the node from accelkit_partitioning",
    RECORD_UNREADABLE: (
        "use the version of accelkit that wrote it; or delete the annotation, after which accelkit does not know which "
        "labels and taints it wrote"
    ),
    TWO_ROLES: "name each node in one role and in one pool of accelkit_partitioning",
    UNKNOWN_NODE: "correct the name in accelkit_partitioning (kubectl get nodes)",
    NOT_PARTITIONED: "run site.yml",
    NO_NODE_LEFT: (
        "name fewer nodes in hard.nodes of accelkit_partitioning, or add to these settings a toleration of each taint: "
        "{key: RESOURCE, operator: Exists, effect: NoSchedule}"
    ),
    OBJECT_OF_ANOTHER: "choose another name in accelkit_partitioning, or delete the object if it is not needed",
    SHARES_REPELLED: (
        "let the API server's admission plugin ExtendedResourceToleration add tolerations "
        "(--enable-admission-plugins), or write into these pods: tolerations: "
        "[{key: KEY, operator: Exists, effect: NoSchedule}]"
    ),
    ADMISSION_UNKNOWN: (
        "find out why the pod is refused; until then, assume that pods must have the tolerations themselves: "
        "[{key: KEY, operator: Exists, effect: NoSchedule}]"
    ),
    TOLERATION_MISSING: (
        "add to its pods: tolerations: [{key: KEY, operator: Exists, effect: NoSchedule}]; running pods stay, but a "
        "new pod would not be scheduled to the node"
    ),
}
