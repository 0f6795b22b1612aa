"""Dialects: the resource names and sentences of a system whose pods we read.

Our own is `native`. A dialect is a YAML file beside this module; texts it does not give are the common ones below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final

import msgspec
from ruamel.yaml import YAML

from accelkit.errors import ProfileError
from accelkit.placement.misfit import Misfit, Reason

_COMMON: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.COMPUTE: "insufficient compute on {cards} card(s)",
        Reason.MODEL: "no card of model {detail}",
        Reason.CONSTRAINT: "no cards that meet the constraints of container {detail}",
        Reason.REUSE: "container {detail} cannot take over the devices of an init container that lie on several cards",
        Reason.TOO_COMPLEX: "the request has too many combinations to search",
        Reason.NO_INVENTORY: "node has no accelkit inventory",
        Reason.BAD_INVENTORY: "node's accelkit inventory is unknown",
        Reason.UNIT: "node does not use the cluster's memory unit: {detail}",
        Reason.UNKNOWN_NODE: "node is not known to accelkit",
        Reason.HELD_ELSEWHERE: "pod is held on node {detail}, whose binding is undecided",
    }
)


class ResourceNames(msgspec.Struct, frozen=True):
    """The extended resources of a dialect: units of memory on one card, and whole cards."""

    memory: str
    cards: str


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How pods of one system ask and what their users read.

    Attributes:
        assignment_keys: the pod annotations a Binding writes.
        one_card_per_pod: whether all sharing containers of a pod share one card.
        texts: sentences by reason, with `{cards}` and `{detail}`.
    """

    resources: ResourceNames
    assignment_keys: tuple[str, ...]
    one_card_per_pod: bool
    texts: dict[Reason, str]
    name: str = ""

    def text(self, misfit: Misfit) -> str:
        """Return the sentence a user reads for a misfit."""
        pattern = self.texts.get(misfit.reason) or _COMMON[misfit.reason]
        return pattern.format(cards=misfit.cards, detail=misfit.detail)


def dialect_names() -> list[str]:
    """Return the names of all dialects, sorted."""
    return sorted(file.name.removesuffix(".yaml") for file in _folder().iterdir() if file.name.endswith(".yaml"))


@cache
def load_dialect(name: str) -> Dialect:
    """Read a dialect by name.

    Raises:
        ProfileError: there is none of that name, or its file is wrong.
    """
    if name not in dialect_names():
        raise ProfileError(f"there is no dialect {name!r}", next_step=f"choose one of {', '.join(dialect_names())}")
    try:
        document = YAML(typ="safe", pure=True).load((_folder() / f"{name}.yaml").read_text())
        return msgspec.convert({**document, "name": name}, Dialect)
    except msgspec.ValidationError as exc:
        raise ProfileError(f"dialect {name} is wrong: {exc}") from exc


def load_dialects(names: Iterable[str]) -> tuple[Dialect, ...]:
    """Read several dialects, each once, in the order given."""
    return tuple(load_dialect(name) for name in dict.fromkeys(names))


def _folder() -> resources.abc.Traversable:
    return resources.files("accelkit.vendors") / "data" / "dialects"
