"""Reasons that prevent a partition, with the next action for each reason."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from accelkit.errors import ConfigurationError

_SettingReason = Literal["TwoRoles", "UnknownNode", "NotPartitioned", "NoNodeLeft"]
_ConflictReason = Literal["LabelOfAnother", "RecordUnreadable", "ObjectOfAnother"]
_PodReason = Literal["SharesRepelled", "AdmissionUnknown", "TolerationMissing"]
PartitionReason = Literal[_SettingReason, _ConflictReason, _PodReason]

NEXT_ACTIONS: Final[dict[PartitionReason, str]] = {
    "LabelOfAnother": "remove that label, which accelkit did not write, or exclude the node from accelkit_partitioning",
    "RecordUnreadable": (
        "use the version of accelkit that wrote it; or delete the annotation, and remove the labels and taints that "
        "accelkit wrote manually"
    ),
    "TwoRoles": "list each node in only one role and one pool of accelkit_partitioning",
    "UnknownNode": "correct the name in accelkit_partitioning (kubectl get nodes)",
    "NotPartitioned": "run site.yml",
    "NoNodeLeft": (
        "list fewer nodes in hard.nodes of accelkit_partitioning, or add a toleration of each taint to these settings: "
        "{key: RESOURCE, operator: Exists, effect: NoSchedule}"
    ),
    "ObjectOfAnother": "choose another name in accelkit_partitioning, or delete the object if it is not needed",
    "SharesRepelled": (
        "enable the API server's admission plugin ExtendedResourceToleration "
        "(--enable-admission-plugins), or add to these pods: tolerations: "
        "[{key: KEY, operator: Exists, effect: NoSchedule}]"
    ),
    "AdmissionUnknown": (
        "find out why the pod is refused; until then, add the tolerations to all pods that request cards: "
        "[{key: KEY, operator: Exists, effect: NoSchedule}]"
    ),
    "TolerationMissing": (
        "add to its pods: tolerations: [{key: KEY, operator: Exists, effect: NoSchedule}]; running pods are not "
        "affected, but new pods cannot be scheduled to the node"
    ),
}


class Conflict(NamedTuple):
    """A conflict, with a message that does not contain the reason code."""

    reason: PartitionReason
    text: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.text}"


def refuse(*conflicts: Conflict) -> ConfigurationError:
    """Return the error for conflicts, with the next action for the first conflict."""
    return ConfigurationError("; ".join(map(str, conflicts)), next_step=NEXT_ACTIONS[conflicts[0].reason])
