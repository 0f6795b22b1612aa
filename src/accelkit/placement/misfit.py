"""Reasons why a pod does not fit a node."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from accelkit.errors import AccelkitError


class MisfitReason(StrEnum):
    """Reasons why a pod does not fit. The dialect formats each reason as a sentence."""

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
    """The reason why a pod does not fit, with the data for its message.

    Attributes:
        cards: the number of cards that were requested by the container that did not fit.
        detail: a model, an amount of memory, a container name or an error message; empty if the reason does not require
            details.
        resolvable: whether the pod would fit without the other pods on the node. If it is False, kube-scheduler does
            not preempt pods on the node.
    """

    reason: MisfitReason
    cards: int = 1
    detail: str = ""
    resolvable: bool = True


class MisfitError(AccelkitError):
    """The cards of a node are not sufficient for a reservation."""

    def __init__(self, misfit: Misfit) -> None:
        super().__init__(f"cannot reserve cards: {misfit.reason} {misfit.detail}".rstrip())
        self.misfit = misfit
