"""Requests from pods, in base units and in the order in which the kubelet allocates devices."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

import msgspec

from accelkit.model.amounts import Amounts

# This number exceeds the number of cards in any machine. A larger request is a mistake, and a search through its
# combinations would take too long.
MAX_CARDS: Final = 128
# A larger number of containers is also a mistake, and a comparison of the containers with each other would take too
# long.
MAX_CONTAINERS: Final = 128


class Kind(StrEnum):
    """Kind of a container, which determines how long its cards are in use.

    The devices of a plain init container are reused by subsequent containers (`devicesToReuse` in the kubelet). The
    devices of app containers and sidecars (init containers with the restartPolicy Always) are not reused.
    """

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


class Near(StrEnum):
    """Required proximity of each pair of cards in a group: below the same PCI switches, or on the same socket.

    Cards with a direct connection, such as NVLink, satisfy both requirements. If the proximity in the inventory is
    UNKNOWN, neither requirement is satisfied.
    """

    SWITCH = "switch"
    SOCKET = "socket"
    ANY = ""


class CardGroup(msgspec.Struct, frozen=True):
    """Cards of a container that must be near each other.

    Attributes:
        near: the required proximity of each pair of these cards.
        socket: the number of a socket set: the cards of all groups of the container with the same number must be on one
            socket. None if there is no such condition.
        min_memory_bytes: the minimum memory of each card, in descending order; one value for each card.
    """

    near: Near
    min_memory_bytes: tuple[int, ...]
    socket: int | None = None

    @property
    def cards(self) -> int:
        """The number of cards."""
        return len(self.min_memory_bytes)


class PodSelector(msgspec.Struct, frozen=True):
    """A selector of pods in one namespace by their labels.

    Attributes:
        labels: the labels that a pod must have, as `key=value`, sorted. A key does not contain `=`.
        namespace: the namespace of the pods and of the pod that uses this selector.
        own: whether the pod that uses this selector also has these labels.
    """

    labels: tuple[str, ...]
    namespace: str = ""
    own: bool = False

    def matches(self, namespace: str, labels: Collection[str]) -> bool:
        """Return whether the selector matches a pod.

        Args:
            namespace: the namespace of the pod.
            labels: all labels of the pod, as `key=value`.
        """
        return self.namespace == namespace and all(label in labels for label in self.labels)

    def __str__(self) -> str:
        return ",".join(self.labels)


class ContainerRequest(msgspec.Struct, frozen=True):
    """The cards that one container requests.

    Attributes:
        container: the name of the container.
        cards: the number of distinct cards.
        memory_bytes: the memory on each card; 0 for whole cards.
        compute: the compute on each card in thousandths, which only the ledger counts.
        whole: whether the container requires exclusive use of the cards.
        model: the required model of the cards; empty for any model.
        same_card_as: the name of a preceding container whose cards this container must use.
        link: the kind of link that must connect the cards, or "any"; empty if no link is required.
        numa: "single" if all cards must be on one known NUMA node; empty if there is no such condition.
        allowed: the numbers of the cards that are accepted; empty if all cards are accepted.
        denied: the numbers of cards that are not accepted.
        policy: the policy for this container's choice of cards; empty for the cluster's policy.
        min_memory_bytes: the minimum memory of each card, including memory that cannot be shared.
        groups: groups of cards that must be near each other. Every card belongs to a group. Empty if there is no such
            condition.
        amounts: the amounts, on each card, of resources that accelkit only counts.
        counted_by: the resource in `amounts` that counts cards. It is unlimited on a card that does not have an amount
            for it.
        card_ids: the identities of the cards that are accepted; empty if all cards are accepted.
        beside: a selector of pods. At least one matching pod must have a share of each card. None if there is no such
            condition.
        apart: a selector of pods. No matching pod may have a share of any of the cards. None if there is no such
            condition.
        closed: the names of the reservations whose cards the container must not use.
        nic: whether cards that share a PCI root complex with a network card are preferred.
    """

    container: str
    kind: Kind
    cards: int
    memory_bytes: int = 0
    compute: int = 0
    whole: bool = False
    model: str = ""
    same_card_as: str = ""
    link: str = ""
    numa: str = ""
    policy: str = ""
    allowed: frozenset[int] = frozenset()
    denied: frozenset[int] = frozenset()
    min_memory_bytes: int = 0
    groups: tuple[CardGroup, ...] = ()
    amounts: Amounts = ()
    counted_by: str = ""
    card_ids: frozenset[str] = frozenset()
    beside: PodSelector | None = None
    apart: PodSelector | None = None
    closed: frozenset[str] = frozenset()
    nic: bool = False

    @property
    def selectors(self) -> tuple[PodSelector, ...]:
        """The selectors for the pods that must or must not share cards with the container."""
        return tuple(each for each in (self.beside, self.apart) if each is not None)


class PodRequest(msgspec.Struct, frozen=True):
    """Request of a pod: init containers and sidecars in the order of the spec, followed by app containers.

    Containers that do not request cards are omitted.
    """

    containers: tuple[ContainerRequest, ...]

    @property
    def order(self) -> list[tuple[str, Kind]]:
        """The names and kinds of the containers, in the order in which the kubelet allocates devices."""
        return [(container.container, container.kind) for container in self.containers]

    @property
    def selectors(self) -> frozenset[PodSelector]:
        """The selectors for the pods that must or must not share cards with the containers."""
        return frozenset(selector for container in self.containers for selector in container.selectors)
