"""Reasons for decisions about nodes with other owners: codes for programs, next actions for administrators."""

from __future__ import annotations

from typing import Final

NODE_OWNED: Final = "NodeOwned"
TWO_OWNERS: Final = "TwoOwners"
NODE_ADOPTED: Final = "NodeAdopted"
LEFT_OVER: Final = "LeftOverOfOwner"
NOT_ALL_READ: Final = "OwnersUnknown"

# By code, the next action.
REASONS: Final[dict[str, str]] = {
    NODE_OWNED: (
        "no action is needed; to adopt the node, make its owner stop offering the cards, then set "
        "accelkit_adopt_nodes: true"
    ),
    TWO_OWNERS: (
        "let one of them leave the node, and wait until its kubelet has set the resource to 0, after five minutes; "
        "exclude the node by accelkit.io/share=false; or, if no pod requests both, name it in node_labels_coexisting"
    ),
    NODE_ADOPTED: "no action is needed; the owner of the driver still loads and upgrades it",
    LEFT_OVER: "no action is needed; to remove it, delete the label, the annotation or the key in the node's status",
    NOT_ALL_READ: (
        "give the user that runs the playbooks the rights of playbooks/files/installer.yml, or name the nodes to share "
        "anyway, with accelkit_adopt_nodes: true"
    ),
}
