"""Declarative formats of the responses to `inspect` from other systems' extenders."""

from __future__ import annotations

import msgspec


class InspectFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON format of one system's `inspect` response.

    Attributes:
        amount: the suffix after `total`, `used` and `available` in the names of amounts, such as `GPU` in `totalGPU`.
        available: whether the response has the available amount in addition to total and used.
        devices: the key of the cards of a node.
        by_number: whether cards are the values of an object with their numbers as keys; otherwise, each has an `id`.
        device: additional fields of each card.
        uid: whether the response contains the UIDs of pods.
        created: the key of a pod's creation time; empty if the response does not contain it.
        bare: whether the list of nodes is the whole response; otherwise, it is under `nodes`.
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
    unknown_node: str = "node {node} is unknown or does not share cards"
