"""Reasons for decisions about nodes with other owners: codes for programs, next actions for administrators."""

from __future__ import annotations

from typing import Final, Literal

OwnershipReason = Literal["NodeOwned", "TwoOwners", "NodeAdopted", "LeftOverOfOwner", "OwnersUnknown"]

NEXT_ACTIONS: Final[dict[OwnershipReason, str]] = {
    "NodeOwned": (
        "no action is needed; to adopt the node, make its owner stop offering the cards, then set "
        "accelkit_adopt_nodes: true"
    ),
    "TwoOwners": (
        "let one of them leave the node, and wait until its kubelet has set the resource to 0, after five minutes; "
        "exclude the node by accelkit.io/share=false; or, if no pod requests both, name it in node_labels_coexisting"
    ),
    "NodeAdopted": "no action is needed; the owner of the driver still loads and upgrades it",
    "LeftOverOfOwner": (
        "no action is needed; to remove it, delete the label, the annotation or the key in the node's status"
    ),
    "OwnersUnknown": (
        "give the user that runs the playbooks the rights of playbooks/files/installer.yml, or name the nodes to share "
        "anyway, with accelkit_adopt_nodes: true"
    ),
}
