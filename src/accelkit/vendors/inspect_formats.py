"""Declarative formats for the `inspect` responses from extenders of other systems."""

from __future__ import annotations

import msgspec


class InspectFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON format of the `inspect` response from one system.

    Attributes:
        amount: the suffix after `total`, `used` and `available` in the names of amounts, such as `GPU` in `totalGPU`.
        available: whether the response contains the available amount in addition to the total and used amounts.
        devices: the key of the cards of a node.
        by_number: whether the cards are an object with the card numbers as keys. If not, each card has an `id`.
        device: the additional fields of each card.
        uid: whether the response contains the UIDs of pods.
        created: the key of a pod's creation time; empty if the response does not contain it.
        bare: whether the response is only the list of nodes. If not, the list is in the field `nodes`.
        unknown_node: the message for a node without cards, with the placeholder `{node}`.
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
