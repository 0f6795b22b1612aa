"""Requests of pods, in base units and in the order in which the kubelet allocates."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

import msgspec

from accelkit.model.amounts import Amounts

# More cards than any machine has. A larger request is a mistake, and searching its combinations would take too long.
MAX_CARDS: Final = 128
# More containers are also a mistake, and comparing them with each other would take too long.
MAX_CONTAINERS: Final = 128


class Kind(StrEnum):
    """Kind of a container, which determines how long the container holds its cards.

    Later containers reuse the devices of a plain init container (the kubelet's devicesToReuse). A sidecar (an init
    container with the restartPolicy Always) and an app container keep their devices.
    """

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


class Near(StrEnum):
    """Required nearness of each pair of cards in a group: below the same PCI switches, or on the same socket.

    Cards with a direct connection, such as NVLink, satisfy both. Cards whose nearness is UNKNOWN in the inventory
    satisfy neither.
    """

    SWITCH = "switch"
    SOCKET = "socket"
    ANY = ""


class CardGroup(msgspec.Struct, frozen=True):
    """Cards of a container that must be near each other.

    Attributes:
        near: the required nearness of each pair of these cards.
        socket: a number; the cards of all groups of the container with the same number must be on one socket. None for
            no condition.
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
    """Pods of one namespace, by their labels.

    Attributes:
        labels: all labels that the pods have, as `key=value`, sorted; no key contains a `=`.
        namespace: the namespace of the pods and of the pod that selects them.
        own: whether the pod that selects them has these labels itself.
    """

    labels: tuple[str, ...]
    namespace: str = ""
    own: bool = False

    def matches(self, namespace: str, labels: Collection[str]) -> bool:
        """Return whether a pod is selected.

        Args:
            namespace: the namespace of the pod.
            labels: all labels of the pod, as `key=value`.
        """
        return self.namespace == namespace and all(label in labels for label in self.labels)

    def __str__(self) -> str:
        return ",".join(self.labels)


class ContainerRequest(msgspec.Struct, frozen=True):
    """Cards for one container.

    Attributes:
        container: the name of the container.
        cards: the number of distinct cards.
        memory_bytes: the memory on each card; 0 for whole cards.
        compute: thousandths of each card's compute, which only the ledger counts.
        whole: whether the cards are exclusively for this container.
        model: the only model that is accepted; empty for any.
        same_card_as: the name of an earlier container whose cards this container must use.
        link: the kind of link that must connect the cards, or "any"; empty for no condition.
        numa: "single" if all cards must be on one known NUMA node; empty for any.
        allowed: the numbers of the only cards that are accepted; empty for any.
        denied: the numbers of cards that are not accepted.
        policy: the policy for this container's choice of cards; empty for the cluster's policy.
        min_memory_bytes: the minimum memory of each card, whether it can be shared or not.
        groups: groups of cards that must be near each other. Every card belongs to a group; empty for no condition.
        amounts: the amounts on each card of resources that accelkit only counts.
        counted_by: the resource in `amounts` that counts cards. It is unlimited on a card that has no amount for it.
        card_ids: the identities of the only cards that are accepted; empty for any.
        beside: a selector of pods, at least one of which must hold a share of each card; None for no condition.
        apart: a selector of pods, none of which may hold a share of any of the cards; None for no condition.
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
        """The selectors of pods with which the container must or must not share cards."""
        return tuple(each for each in (self.beside, self.apart) if each is not None)


class PodRequest(msgspec.Struct, frozen=True):
    """Request of a pod: init containers and sidecars in the order of the spec, then app containers.

    Containers that request no card are left out.
    """

    containers: tuple[ContainerRequest, ...]

    @property
    def order(self) -> list[tuple[str, Kind]]:
        """The containers' names and kinds, in the order in which the kubelet allocates."""
        return [(container.container, container.kind) for container in self.containers]

    @property
    def selectors(self) -> frozenset[PodSelector]:
        """The selectors of pods with which its containers must or must not share cards."""
        return frozenset(selector for container in self.containers for selector in container.selectors)
