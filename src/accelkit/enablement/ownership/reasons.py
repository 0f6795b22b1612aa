"""Why a node is left to somebody else, or cannot be: codes for programs, next steps for people."""

from __future__ import annotations

from typing import Final

NODE_OWNED: Final = "NodeOwned"
TWO_OWNERS: Final = "TwoOwners"
NODE_ADOPTED: Final = "NodeAdopted"
LEFT_OVER: Final = "LeftOverOfOwner"
NOT_ALL_READ: Final = "OwnersUnknown"

# By code, what a person does now.
REASONS: Final[dict[str, str]] = {
    NODE_OWNED: (
        "leave it as it is; or let its owner stop giving the cards, then take the node over with "
        "accelkit_adopt_nodes: true"
    ),
    TWO_OWNERS: (
        "let one of them leave the node, and wait until its kubelet has set the resource to 0, five minutes later; "
        "leave the node out by accelkit.io/share=false; or name it in node_labels_coexisting where nobody asks for both"
    ),
    NODE_ADOPTED: "nothing; the driver stays its owner's to load and to upgrade",
    LEFT_OVER: "nothing; who wants it gone deletes the label, the annotation or the key in the node's status",
    NOT_ALL_READ: (
        "give the user that runs the playbooks the rights of playbooks/files/installer.yml, or name the nodes that are "
        "to be shared all the same with accelkit_adopt_nodes: true"
    ),
}
