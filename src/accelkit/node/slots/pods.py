"""Pods of this node with assigned slots, in the same format as pods with assigned memory for the device plugin.

A slot is one of the concurrent uses of a card. A container has one slot of each of its cards.
"""

from __future__ import annotations

from dataclasses import replace

from accelkit.model.assignment import Assignment, Share
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePods


class SlotPods:
    """The pods to which slots of one resource are assigned.

    Args:
        pods: this node's pods, read in the dialect of the resource.
        resource: the extended resource that counts slots.
    """

    def __init__(self, pods: NodePods, resource: str) -> None:
        self._pods = pods
        self._resource = resource

    def list_assigned(self) -> list[AssignedPod]:
        """Return the pods with assigned slots. Each slot is represented as one unit of memory."""
        return [found for pod in self._pods.list_assigned() if (found := self._read(pod)).assignment.containers]

    def list_unassigned(self) -> frozenset[str]:
        """Return the UIDs of the pods that have no valid assignment and that the kubelet has not admitted."""
        return self._pods.list_unassigned()

    def set_cards(self, cards: NodeCards) -> None:
        """Replace the node's cards, which are used to check assignments."""
        self._pods.set_cards(cards)

    async def refresh(self) -> bool:
        """List the pods again without delay; return whether the API server responded."""
        return await self._pods.refresh()

    @property
    def node_cards(self) -> NodeCards | None:
        """Always None, because the extender has already considered the connections between the cards."""
        return None

    def _read(self, pod: AssignedPod) -> AssignedPod:
        slots = {
            name: tuple(Share(share.card, 1) for share in shares if dict(share.amounts).get(self._resource))
            for name, shares in pod.assignment.containers.items()
        }
        assignment = Assignment({name: shares for name, shares in slots.items() if shares})
        return replace(pod, assignment=assignment, units={}, unit_bytes=1, written_bytes={})
