"""Requests: what a pod asks for, in base units and in the order in which the kubelet allocates."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

import msgspec

from accelkit.model.amounts import Amounts

# More cards than any machine has; beyond it a request is a mistake, and its combinations a trap.
MAX_CARDS: Final = 128
# Each holds a card of its own or shares one: more is a mistake too, and what is compared with each other many.
MAX_CONTAINERS: Final = 128


class Kind(StrEnum):
    """How long a container holds its cards.

    A plain init container gives its devices to the containers after it (the kubelet's devicesToReuse); a sidecar (an
    init container that restarts always) and an app container keep theirs.
    """

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


class Near(StrEnum):
    """How near every two cards of a group are: below the same PCI switches, or on the same socket.

    What connects two cards directly, as NVLink, brings them nearer than either. UNKNOWN in the inventory is not near.
    """

    SWITCH = "switch"
    SOCKET = "socket"
    ANY = ""


class CardGroup(msgspec.Struct, frozen=True):
    """Some of the cards of a container, that must be near each other.

    Attributes:
        near: how near every two of them.
        socket: a number; all cards of the container's groups with the same one are on one socket together. None for
            cards that need not be.
        min_memory_bytes: what each of the cards has at least, the most first; as many as there are cards.
    """

    near: Near
    min_memory_bytes: tuple[int, ...]
    socket: int | None = None

    @property
    def cards(self) -> int:
        """How many."""
        return len(self.min_memory_bytes)


class PodSelector(msgspec.Struct, frozen=True):
    """Pods of one namespace, by their labels.

    Attributes:
        labels: all of them, as `key=value`, sorted; no key has a `=`.
        namespace: theirs, which is that of the pod that names them.
        own: whether the pod that names them is one of them.
    """

    labels: tuple[str, ...]
    namespace: str = ""
    own: bool = False

    def matches(self, namespace: str, labels: Collection[str]) -> bool:
        """Whether a pod is one of them.

        Args:
            namespace: the pod's.
            labels: all that it has, as `key=value`.
        """
        return self.namespace == namespace and all(label in labels for label in self.labels)

    def __str__(self) -> str:
        return ",".join(self.labels)


class ContainerRequest(msgspec.Struct, frozen=True):
    """Cards for one container.

    Attributes:
        container: its name.
        cards: how many different cards.
        memory_bytes: on each of them; 0 for whole cards.
        compute: thousandths of each card's compute, kept by the ledger only.
        whole: the cards are for this container alone.
        model: only cards of this model; empty for any.
        same_card_as: name of an earlier container whose cards this one must use.
        link: the cards must be linked to each other, "any" way or by this kind of link; empty for unlinked.
        numa: "single" where all its cards must sit on one known NUMA node; empty for any.
        allowed: numbers of the only cards it may have; empty for any.
        denied: numbers of cards it may not have.
        policy: overrides the cluster's policy for this container's choice of cards; empty for the cluster's.
        min_memory_bytes: what each card has at least, whether it can be shared or not.
        groups: cards that must be near each other, all cards in one group or another; empty where none must.
        amounts: on each of the cards, of resources that are numbers and nothing else.
        counted_by: the one of them that counts cards; a card of which nobody told how many it is has no limit.
        card_ids: identities of the only cards it may have; empty for any.
        beside: only cards of which one of these pods holds a share; None for any.
        apart: no card of which one of these pods holds a share; None for any.
        closed: names of the reservations whose cards it may not have.
        nic: whether cards that share a PCI root complex with a network card are taken before others.
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
        """The pods that it must or must not share cards with."""
        return tuple(each for each in (self.beside, self.apart) if each is not None)


class PodRequest(msgspec.Struct, frozen=True):
    """What a pod asks for: init containers and sidecars in their order, then app containers.

    Containers that ask for no card are left out.
    """

    containers: tuple[ContainerRequest, ...]

    @property
    def order(self) -> list[tuple[str, Kind]]:
        """The containers' names and kinds, in the order in which the kubelet allocates."""
        return [(container.container, container.kind) for container in self.containers]

    @property
    def selectors(self) -> frozenset[PodSelector]:
        """The pods that its containers must or must not share cards with."""
        return frozenset(selector for container in self.containers for selector in container.selectors)
