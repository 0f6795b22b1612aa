"""Reads dialects: the resource names and sentences of a system whose pods we read.

Our own is `native`. A dialect is a YAML file in `data/dialects`, or in a plug-in; texts it does not give are the common
ones below.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final

import msgspec
from ruamel.yaml import YAML

from accelkit.errors import PluginError, ProfileError
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.plugins.catalogue import find_plugin, list_plugin_names
from accelkit.plugins.documents import read_document
from accelkit.plugins.interface import DIALECTS
from accelkit.texts import shorten
from accelkit.vendors.annotations import Annotations
from accelkit.vendors.inspect_formats import InspectFormat
from accelkit.vendors.profiles import is_plugin_resource

# Resources of other systems that our agents advertise on a node, or have advertised: elsewhere the same names are not
# ours.
ADVERTISED_ANNOTATION: Final = "accelkit.io/advertised"

log = logging.getLogger(__name__)

_COMMON: Final[Mapping[MisfitReason, str]] = MappingProxyType(
    {
        MisfitReason.MEMORY: "insufficient memory in one card",
        MisfitReason.MEMORY_CARDS: "insufficient memory on {cards} cards",
        MisfitReason.WHOLE_CARDS: "insufficient free cards",
        MisfitReason.COMPUTE: "insufficient compute on {cards} card(s)",
        MisfitReason.MODEL: "no card of model {detail}",
        MisfitReason.CARD_MEMORY: "fewer than {cards} cards of {detail}",
        MisfitReason.CONSTRAINT: "no cards that meet the constraints of container {detail}",
        MisfitReason.REUSE: (
            "container {detail} cannot take over the devices of an init container that lie on several cards"
        ),
        MisfitReason.TOO_COMPLEX: "the request has too many combinations to search",
        MisfitReason.NO_INVENTORY: "node has no accelkit inventory",
        MisfitReason.BAD_INVENTORY: "node's accelkit inventory is unknown",
        MisfitReason.UNIT: "node does not use the cluster's memory unit: {detail}",
        MisfitReason.UNKNOWN_NODE: "node is not known to accelkit",
        MisfitReason.HELD_ELSEWHERE: "pod is held on node {detail}, whose binding is undecided",
        MisfitReason.CARD_IDS: "no room on the cards that the pod names ({detail})",
        MisfitReason.BESIDE: "no room on the cards of pods with {detail}, which the pod wants to share",
        MisfitReason.APART: "pods with {detail}, from which the pod keeps apart, are on every card with room",
        MisfitReason.RESERVED: "the cards with room are reserved for {detail}",
        MisfitReason.QUOTA: "{detail}",
    }
)


class ResourceNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The extended resources of a dialect; those that it does not have are empty.

    Attributes:
        memory: units of memory on one card.
        cards: whole cards.
        counts: how many cards the amounts of a container are split over; any one of them.
        bytes: memory of all of them together.
        compute: thousandths of a card's compute, of all of them together.
        slices: equal parts of one card, of which it has `per_card`.
        amounts: how all names begin by which a container with `counts` asks for parts of its cards.
        monitoring: those of them that take nothing of a card.
    """

    memory: str = ""
    cards: str = ""
    counts: tuple[str, ...] = ()
    bytes: str = ""
    compute: str = ""
    slices: str = ""
    per_card: int = 0
    amounts: str = ""
    monitoring: tuple[str, ...] = ()

    @property
    def asking(self) -> tuple[str, ...]:
        """The resources by which a container asks for a card."""
        return tuple(name for name in (self.memory, self.cards, *self.counts, self.slices) if name)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.asking, *(name for name in (self.bytes, self.compute, *self.monitoring) if name))


class PodRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pod annotations that bound the choice of cards: lists of card names, and of containers that share one card."""

    allow: str
    deny: str
    same_card: str


class GroupNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An annotation in which pods ask for whole cards in nested groups, and the words of its resources.

    Attributes:
        annotation: its key.
        prefixes: how the names of groups and cards begin.
        socket: what stands before the name of a group of cards of one socket.
        switch: the same, of cards below the same PCI switches.
        card: what stands before the name of a card.
        counts: the resources that count cards, the limit first.
        topology: the resource that says whether the best connected cards are sought: 1, or 0 for any.
    """

    annotation: str
    prefixes: tuple[str, ...]
    socket: str
    switch: str
    card: str
    counts: tuple[str, ...]
    topology: str


class Logs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The folder of the services' logs, and the names of their files without `.log`."""

    folder: str = "/var/log/accelkit"
    extender: str = "accelkit-extender"
    node_agent: str = "accelkit-node-agent"


class UnhealthyCards(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ConfigMap in kube-system that lists the bad cards of one node.

    Attributes:
        config_map: its name, with `{node}`.
        key: the entry with the IDs or numbers of the cards, separated by commas.
    """

    config_map: str
    key: str

    def find_node(self, config_map: str) -> str | None:
        """Return the name of the node that a ConfigMap of this name is about; None where it is another one."""
        before, _, after = self.config_map.partition("{node}")
        named = config_map.startswith(before) and config_map.endswith(after)
        return config_map.removeprefix(before).removesuffix(after) if named else None


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How pods of one system ask and what their users read.

    Attributes:
        one_card_per_pod: whether all sharing containers of a pod share one card.
        texts: sentences by reason, with `{cards}` and `{detail}`.
        advertised: whether our node agent can serve its resources; otherwise the system's own device plugin does.
        node_label: the label of nodes that share their cards; empty for none.
        logs: where its users look for them.
        annotations: how it writes on a pod which cards it got; None where it does not.
        also_written: further annotations of pods that its scheduler or its device plugin writes, and users do not.
        plugin_writes: whether these are written by a device plugin that is not ours.
        environment: what a container is told, with `{card}`, `{capacity}`, `{pod}` and `{container}` in units.
        pod_rules: annotations that bound the choice of cards.
        groups: an annotation with nested groups of cards; None where it has none.
        disabled_cards: what stands before a card's name in labels of nodes that take it out of placement.
        unhealthy_cards: where it lists the bad cards of nodes; None where it does not.
        extender_path: the path below which its extender answered; empty for none.
        inspect: how that one answered `inspect`; None where it did not.
    """

    resources: ResourceNames
    one_card_per_pod: bool
    texts: dict[MisfitReason, str]
    advertised: bool = True
    node_label: str = ""
    logs: Logs = Logs()
    annotations: Annotations | None = None
    also_written: tuple[str, ...] = ()
    plugin_writes: bool = False
    environment: dict[str, str] = {}
    pod_rules: PodRules | None = None
    groups: GroupNames | None = None
    disabled_cards: str = ""
    unhealthy_cards: UnhealthyCards | None = None
    extender_path: str = ""
    inspect: InspectFormat | None = None
    name: str = ""

    @property
    def cards_are_ours(self) -> bool:
        """Whether no other device plugin gives cards by the resources of this dialect."""
        return not any(map(is_plugin_resource, self.resources.asking))

    @property
    def assignment_keys(self) -> tuple[str, ...]:
        """The annotations of pods that schedulers and device plugins write, never users."""
        return (*(self.annotations.keys if self.annotations else ()), *self.also_written)

    @property
    def annotation_keys(self) -> frozenset[str]:
        """The annotations of pods that it reads."""
        rules = self.pod_rules
        bounds = (rules.allow, rules.deny, rules.same_card) if rules else ()
        groups = (self.groups.annotation,) if self.groups else ()
        return frozenset((*(self.annotations.keys if self.annotations else ()), *bounds, *groups))

    def format_misfit(self, misfit: Misfit) -> str:
        """Return the sentence a user reads for a misfit; what users wrote is shortened, since each node repeats it."""
        pattern = self.texts.get(misfit.reason) or _COMMON[misfit.reason]
        return pattern.format(cards=misfit.cards, detail=shorten(misfit.detail))


def list_own_dialect_names() -> list[str]:
    """Return the names of accelkit's own dialects, sorted."""
    return sorted(file.name.removesuffix(".yaml") for file in _folder().iterdir() if file.name.endswith(".yaml"))


def list_dialect_names(*, advertised: bool = False) -> list[str]:
    """Return the names of all dialects, sorted: accelkit's own, and those of other distributions, which stay unloaded.

    With `advertised` only those that our node agent can serve, for which all are loaded.
    """
    if advertised:
        return [dialect.name for dialect in load_usable_dialects() if dialect.advertised]
    return sorted({*list_own_dialect_names(), *list_plugin_names(DIALECTS)})


@cache
def load_dialect(name: str) -> Dialect:
    """Read a dialect by name.

    Raises:
        ProfileError: there is none of that name, or its file is wrong.
        PluginError: it is another distribution's, and cannot be used.
    """
    own = list_own_dialect_names()
    if plugin := find_plugin(DIALECTS, name, own):
        return read_document(plugin, Dialect)
    if name not in own:
        raise ProfileError(
            f"there is no dialect {name!r}",
            next_step=f"choose one of {', '.join(list_dialect_names())}, or install the distribution that has it",
        )
    return load_own_dialect(name)


@cache
def load_own_dialect(name: str) -> Dialect:
    """Read one of accelkit's own dialects, whatever other distributions have under its name.

    Raises:
        ProfileError: its file is wrong.
    """
    try:
        document = YAML(typ="safe", pure=True).load((_folder() / f"{name}.yaml").read_text())
        return msgspec.convert({**document, "name": name}, Dialect)
    except msgspec.ValidationError as exc:
        raise ProfileError(f"dialect {name} is wrong: {exc}") from exc


def load_served_dialect(name: str) -> Dialect:
    """Read a dialect that our node agent serves.

    Raises:
        ProfileError: there is none of that name, its file is wrong, or another system's device plugin serves it.
        PluginError: it is another distribution's, and cannot be used.
    """
    dialect = load_dialect(name)
    if not dialect.advertised:
        raise ProfileError(
            f"the dialect {name} is served by another system's device plugin",
            next_step=f"choose one of {', '.join(list_dialect_names(advertised=True))}",
        )
    return dialect


@cache
def load_usable_dialects() -> tuple[Dialect, ...]:
    """Read all dialects that can be used, by name; what cannot is logged, and pods that speak it are not read.

    Where another distribution has a name of ours, ours counts.
    """
    found = {name: load_own_dialect(name) for name in list_own_dialect_names()}
    for name in list_plugin_names(DIALECTS):
        try:
            found[name] = load_dialect(name)
        except PluginError as exc:
            log.error("%s", exc)  # noqa: TRY400 - it is a sentence; where it was raised says nothing more
    return tuple(found[name] for name in sorted(found))


def list_served_dialects(advertised: Iterable[str]) -> tuple[Dialect, ...]:
    """Return the dialects in which the pods of a cluster are read where nobody says which are in use.

    Those that our node agents can serve; where another device plugin may give cards by the same resources, only if ours
    do it here.

    Args:
        advertised: the annotation `accelkit.io/advertised` of each node, empty where it has none.
    """
    ours = {name for text in advertised for name in text.split(",")}
    dialects = load_dialects(list_dialect_names(advertised=True))
    return tuple(each for each in dialects if each.cards_are_ours or not ours.isdisjoint(each.resources.asking))


def load_dialects(names: Iterable[str]) -> tuple[Dialect, ...]:
    """Read several dialects, each once, in the order given."""
    return tuple(load_dialect(name) for name in dict.fromkeys(names))


def list_assignment_keys() -> tuple[str, ...]:
    """Return the annotations of pods that schedulers and device plugins of any system here write, sorted.

    A pod may speak a dialect that is not in use today, and will be read when it is.
    """
    dialects = load_dialects(list_dialect_names())
    return tuple(sorted({ASSIGNMENT_ANNOTATION, *(key for each in dialects for key in each.assignment_keys)}))


def list_extender_paths(in_use: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the paths below which the extenders of other systems answered, each once.

    Args:
        in_use: names of dialects that count beside accelkit's own.
    """
    dialects = (*map(load_own_dialect, list_own_dialect_names()), *load_dialects(in_use))
    return tuple(sorted({dialect.extender_path for dialect in dialects if dialect.extender_path}))


def _folder() -> resources.abc.Traversable:
    return resources.files("accelkit.vendors") / "data" / "dialects"
