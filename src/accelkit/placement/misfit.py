"""Reasons why a pod does not fit a node."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from accelkit.errors import AccelkitError


class MisfitReason(StrEnum):
    """Closed set of reasons; the dialect defines the sentence of each reason."""

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
    """A reason, the data for its sentence, and whether the node could ever take the pod.

    Attributes:
        cards: the number of cards requested by the container that did not fit.
        detail: the name of a model, an amount of memory, the name of a container, or the message of the reader; empty
            if the reason is complete without it.
        resolvable: whether the pod would fit if other pods left the node. False prevents preemption there.
    """

    reason: MisfitReason
    cards: int = 1
    detail: str = ""
    resolvable: bool = True


class MisfitError(AccelkitError):
    """A reservation that no longer fits its node."""

    def __init__(self, misfit: Misfit) -> None:
        super().__init__(f"does not fit: {misfit.reason} {misfit.detail}".rstrip())
        self.misfit = misfit
