"""Reasons for decisions about nodes with other owners, with the next action for each reason."""

from __future__ import annotations

from typing import Final, Literal

OwnershipReason = Literal["NodeOwned", "TwoOwners", "NodeAdopted", "LeftOverOfOwner", "OwnersUnknown"]

NEXT_ACTIONS: Final[dict[OwnershipReason, str]] = {
    "NodeOwned": (
        "no action is needed; to adopt the node, make its owner stop offering the cards, then set "
        "accelkit_adopt_nodes: true"
    ),
    "TwoOwners": (
        "remove one of them from the node, and wait about five minutes until the kubelet sets its resource to 0; "
        "exclude the node with accelkit.io/share=false; or, if no pod requests both, add it to node_labels_coexisting"
    ),
    "NodeAdopted": "no action is needed; the owner of the driver still loads and upgrades it",
    "LeftOverOfOwner": (
        "no action is needed; to remove the traces, delete the label, the annotation or the key in the node's status"
    ),
    "OwnersUnknown": (
        "grant the user that runs the playbooks the permissions of playbooks/files/installer.yml, or share nodes "
        "anyway by listing them and setting accelkit_adopt_nodes: true"
    ),
}
