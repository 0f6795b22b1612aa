"""Reasons why a pod does not fit a node."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from accelkit.errors import AccelkitError


class MisfitReason(StrEnum):
    """Closed set of reasons; the dialect has the sentence for each."""

    MEMORY = "InsufficientMemory"
    MEMORY_CARDS = "InsufficientMemoryOnCards"
    COMPUTE = "InsufficientCompute"
    AMOUNT = "InsufficientAmount"
    WHOLE_CARDS = "InsufficientWholeCards"
    MODEL = "NoCardOfModel"
    CARD_MEMORY = "CardsTooSmall"
    CONSTRAINT = "ConstraintUnmet"
    REUSE = "InitContainerReuse"
    TOO_COMPLEX = "TooComplex"
    NO_INVENTORY = "NoInventory"
    BAD_INVENTORY = "InventoryUnknown"
    UNIT = "UnitDiffers"
    CORRECTING = "AssignmentsBeingCorrected"
    UNKNOWN_NODE = "UnknownNode"
    HELD_ELSEWHERE = "HeldElsewhere"
    CARD_IDS = "CardsNotNamed"
    BESIDE = "NotBesidePods"
    APART = "NotApartFromPods"
    RESERVED = "CardsReserved"
    QUOTA = "QuotaExceeded"


class Misfit(msgspec.Struct, frozen=True):
    """A reason, the data of its sentence, and whether the node could ever take the pod.

    Attributes:
        cards: how many cards the container that did not fit asks for.
        detail: model name, amount of memory, container name or the reader's own message; empty where the reason says
            all.
        resolvable: whether the pod would fit if others left the node. What cannot be resolved stops preemption.
    """

    reason: MisfitReason
    cards: int = 1
    detail: str = ""
    resolvable: bool = True


class MisfitError(AccelkitError):
    """A reservation that does not fit its node any more."""

    def __init__(self, misfit: Misfit) -> None:
        super().__init__(f"does not fit: {misfit.reason} {misfit.detail}".rstrip())
        self.misfit = misfit
