"""Formats in which other systems' extenders respond to `inspect`, as data."""

from __future__ import annotations

import msgspec


class InspectFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON of one system's `inspect`.

    Attributes:
        amount: the suffix of `total`, `used` and `available` in the names of amounts, such as `GPU` in `totalGPU`.
        available: whether the response has the available amount in addition to total and used.
        devices: the key under which a node lists its cards.
        by_number: whether cards are the values of an object, with their numbers as keys; otherwise each has an `id`.
        device: further fields of each card.
        uid: whether the response has the UIDs of pods.
        created: the key of a pod's creation time; empty if the response does not have it.
        bare: whether the list of nodes is the whole response; otherwise it is under `nodes`.
        unknown_node: the message for a node without cards, with `{node}`.
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
