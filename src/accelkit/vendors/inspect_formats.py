"""Describes as data how the extenders of other systems answer `inspect`: which keys, and what is listed how."""

from __future__ import annotations

import msgspec


class InspectFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON of one system's `inspect`.

    Attributes:
        amount: what follows `total`, `used` and `available` in the names of amounts, as `GPU` in `totalGPU`.
        available: whether what is left is told beside total and used.
        devices: the key under which a node lists its cards.
        by_number: whether cards are the values of an object, with their numbers as keys; else each has an `id`.
        device: what else is told of each card.
        uid: whether pods are told with their UIDs.
        created: the key of a pod's time of creation; empty where it is not told.
        bare: whether nodes stand by themselves; else under `nodes`.
        unknown_node: the sentence for a node without cards, with `{node}`.
    """

    amount: str
    devices: str
    available: bool = False
    by_number: bool = False
    device: dict[str, str] = {}
    uid: bool = False
    created: str = ""
    bare: bool = False
    unknown_node: str = "node {node} is not known, or shares no cards"
