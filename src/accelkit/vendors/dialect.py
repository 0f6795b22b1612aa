"""A dialect: the resource names and sentences of a system whose pods we read; `dialects` finds and reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.texts import count_cards, shorten
from accelkit.vendors.annotations import Annotations
from accelkit.vendors.inspect_formats import InspectFormat
from accelkit.vendors.profiles import is_plugin_resource

_COMMON: Final[Mapping[MisfitReason, str]] = MappingProxyType(
    {
        MisfitReason.MEMORY: "insufficient memory in one card",
        MisfitReason.MEMORY_CARDS: "insufficient memory on {cards} cards",
        MisfitReason.WHOLE_CARDS: "insufficient free cards",
        MisfitReason.COMPUTE: "insufficient compute on {counted}",
        MisfitReason.AMOUNT: "insufficient {detail} on {counted}",
        MisfitReason.MODEL: "no card of model {detail}",
        MisfitReason.CARD_MEMORY: "fewer than {counted} of {detail}",
        MisfitReason.CONSTRAINT: "no cards that meet the constraints of container {detail}",
        MisfitReason.REUSE: (
            "container {detail} cannot take over the devices of an init container that lie on several cards"
        ),
        MisfitReason.TOO_COMPLEX: "the request has too many combinations to search",
        MisfitReason.NO_INVENTORY: "node has no accelkit inventory",
        MisfitReason.BAD_INVENTORY: "node's accelkit inventory is unknown",
        MisfitReason.UNIT: "node does not use the cluster's memory unit: {detail}",
        MisfitReason.CORRECTING: "assignments on the node are being corrected",
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
        amounts: how all names begin by which a container with `counts` asks for parts of its cards. What is neither
            memory nor compute is a number and nothing else: a card has its part of what its node's status says.
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
    def giving(self) -> tuple[str, ...]:
        """The resources for which a container gets device nodes of cards, whether or not it takes anything of them."""
        return (*self.asking, *self.monitoring)

    def is_amount(self, name: str) -> bool:
        """Whether a resource is a number of which cards have some, and nothing else to us; those that count are too."""
        return bool(self.amounts) and name.startswith(self.amounts) and name not in self._understood

    @property
    def _understood(self) -> tuple[str, ...]:
        return (self.bytes, self.compute, *self.monitoring)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.asking, *(name for name in (self.bytes, self.compute, *self.monitoring) if name))


class CardLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels of nodes that say which cards they have; a long value goes on under the key with 2, 3… behind `Z`.

    Attributes:
        numbers: `0.1.2`.
        names: `card0.card1`, read where there is no other.
        vendor: of these cards, as profiles name it.
        pci_groups: `0.1_2.3`: cards that are taken out together where a label that takes one out says so.
        numa: `0-0.1_1-2.3`: the cards of each NUMA node.
        links: `0.0-1.0_2.0-3.0`: pairs of linked cards with a tile of each; cards by their places among the numbers.
        link_kind: what such a link is called.
        tiles: the resource that counts the tiles of cards.
        tiles_out: what stands before `card0_gt1` in labels that take a tile out.
    """

    numbers: str
    names: str
    vendor: str
    pci_groups: str
    numa: str = ""
    links: str = ""
    link_kind: str = ""
    tiles: str = ""
    tiles_out: tuple[str, ...] = ()


class PodRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pod annotations that bound the choice of cards: lists of card names, and of containers that share one card.

    One that is not read is empty.

    Attributes:
        single_numa: `true` where all cards of a container have to be on one NUMA node.
        linked: there where the cards of a container have to be linked, two and two.
    """

    allow: str
    deny: str
    same_card: str
    single_numa: str = ""
    linked: str = ""


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
        card_labels: labels of nodes from which cards are read where no agent of ours tells of them; None for none.
        preferred_card: how labels of nodes end whose value names the card that is taken first.
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
    card_labels: CardLabels | None = None
    disabled_cards: str = ""
    preferred_card: str = ""
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
        bounds = tuple(filter(None, msgspec.structs.astuple(rules))) if rules else ()
        groups = (self.groups.annotation,) if self.groups else ()
        return frozenset((*(self.annotations.keys if self.annotations else ()), *bounds, *groups))

    def without(self, annotations: Collection[str]) -> Dialect:
        """Return the dialect without the rules of pods in these annotations."""
        if (rules := self.pod_rules) is None or not annotations:
            return self
        kept = {name: "" if key in annotations else key for name, key in msgspec.structs.asdict(rules).items()}
        return msgspec.structs.replace(self, pod_rules=PodRules(**kept))

    def format_misfit(self, misfit: Misfit) -> str:
        """Return the sentence a user reads for a misfit; what users wrote is shortened, since each node repeats it."""
        pattern = self.texts.get(misfit.reason) or _COMMON[misfit.reason]
        counted = count_cards(misfit.cards)
        return pattern.format(cards=misfit.cards, counted=counted, detail=shorten(misfit.detail))
