"""Dialects: resource names and messages of systems whose pods are read by accelkit. Loaded by the module `dialects`."""

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
            "container {detail} cannot reuse the devices of an init container, because they are on several cards"
        ),
        MisfitReason.TOO_COMPLEX: "the request has too many combinations to search",
        MisfitReason.NO_INVENTORY: "node has no accelkit inventory",
        MisfitReason.BAD_INVENTORY: "node's accelkit inventory is unknown",
        MisfitReason.UNIT: "node does not use the cluster's memory unit: {detail}",
        MisfitReason.CORRECTING: "assignments on the node are being corrected",
        MisfitReason.UNKNOWN_NODE: "node is unknown to accelkit",
        MisfitReason.HELD_ELSEWHERE: "pod is reserved on node {detail} until the result of its Binding is known",
        MisfitReason.CARD_IDS: "no room on the cards that the pod names ({detail})",
        MisfitReason.BESIDE: "no room on the cards that the pod must share with pods that have {detail}",
        MisfitReason.APART: (
            "the pod must not share cards with pods that have {detail}, and these use every card with room"
        ),
        MisfitReason.RESERVED: "the cards with room are reserved for {detail}",
        MisfitReason.QUOTA: "{detail}",
    }
)


class ResourceNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names of the extended resources of a dialect. A name is empty if the dialect does not have the resource.

    Attributes:
        memory: the resource for units of memory on one card.
        cards: the resource for whole cards.
        counts: the resources for the number of cards across which a container's amounts are split. A container uses one
            of these resources.
        bytes: the resource for the total memory on the cards of a container.
        compute: the resource for the total compute on the cards of a container, in thousandths of a card.
        slices: the resource for equal parts of one card. A card consists of `per_card` slices.
        amounts: the prefix of all resources that a container with `counts` uses to request amounts of its cards.
            Amounts other than memory and compute are only counted: each card provides an equal part of the amount in
            its node's status.
        monitoring: the resources that do not use any amount of a card.
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
    def requestable(self) -> tuple[str, ...]:
        """The resources that a container uses to request a card."""
        return tuple(name for name in (self.memory, self.cards, *self.counts, self.slices) if name)

    @property
    def with_devices(self) -> tuple[str, ...]:
        """The resources for which a container gets the device nodes of cards, with or without a share of the cards."""
        return (*self.requestable, *self.monitoring)

    def is_amount(self, name: str) -> bool:
        """Return whether a resource is an amount of cards that accelkit only counts.

        The result may be true for a resource in `counts`.
        """
        return bool(self.amounts) and name.startswith(self.amounts) and name not in self._understood

    @property
    def _understood(self) -> tuple[str, ...]:
        return (self.bytes, self.compute, *self.monitoring)

    @property
    def names(self) -> tuple[str, ...]:
        """All resources of the dialect, except for the resources that match only the prefix `amounts`."""
        return (*self.requestable, *(name for name in (self.bytes, self.compute, *self.monitoring) if name))


class CardLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Node labels that list cards. A long value is continued in labels with the suffixes 2, 3 and so on.

    Attributes:
        numbers: the key of the label with the numbers, such as `0.1.2`.
        names: the key of the label with the names, such as `card0.card1`, which is read if there are no numbers.
        vendor: the vendor of these cards, with its name in profiles.
        pci_groups: the key of the label with groups of cards, such as `0.1_2.3`. A label that disables a card can also
            disable its group.
        numa: the key of the label with the cards of each NUMA node, such as `0-0.1_1-2.3`.
        links: the key of the label with the pairs of linked cards and tiles, such as `0.0-1.0_2.0-3.0`. A card is
            identified by its position in `numbers`.
        link_kind: the name of this kind of link.
        tiles: the resource that counts tiles of cards.
        tiles_out: the prefixes, before a name such as `card0_gt1`, in the keys of labels that disable a tile.
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
    """Pod annotations that restrict the choice of cards, or list containers that share one card.

    An empty key means that the annotation is not read.

    Attributes:
        single_numa: the annotation that is `true` if all cards of a container must be on one NUMA node.
        linked: the annotation that is present if the cards of a container must be linked in pairs.
    """

    allow: str
    deny: str
    same_card: str
    single_numa: str = ""
    linked: str = ""


class GroupNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The annotation that pods use to request whole cards in nested groups, and the terms in its resource names.

    Attributes:
        annotation: the key of the annotation.
        prefixes: the prefixes of the names of groups and cards.
        socket: the term before the name of a group of cards on one socket.
        switch: the term before the name of a group of cards below the same PCI switches.
        card: the term before the name of a card.
        counts: the resources that count cards; the first one is used in limits.
        topology: the resource that is 1 if the best connected cards are requested, and 0 if any cards are accepted.
    """

    annotation: str
    prefixes: tuple[str, ...]
    socket: str
    switch: str
    card: str
    counts: tuple[str, ...]
    topology: str


class Logs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The folder for the log files of services, and the names of these files without `.log`."""

    folder: str = "/var/log/accelkit"
    extender: str = "accelkit-extender"
    node_agent: str = "accelkit-node-agent"


class UnhealthyCards(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ConfigMap in kube-system that lists the unhealthy cards of one node.

    Attributes:
        config_map: the name of the ConfigMap, with the placeholder `{node}`.
        key: the key of the value that lists the IDs or numbers of the cards, separated by commas.
    """

    config_map: str
    key: str

    def find_node(self, config_map: str) -> str | None:
        """Return the node name from the name of a ConfigMap; None if the ConfigMap's name does not match."""
        before, _, after = self.config_map.partition("{node}")
        named = config_map.startswith(before) and config_map.endswith(after)
        return config_map.removeprefix(before).removesuffix(after) if named else None


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requests, annotations and messages of one system.

    Attributes:
        one_card_per_pod: whether all containers of a pod that request shares use the same card.
        texts: the messages by reason, with the placeholders `{cards}` and `{detail}`.
        advertised: whether accelkit's node agent can serve its resources. If not, the system's device plugin serves
            them.
        node_label: the label on nodes that share their cards; empty if there is no such label.
        logs: the location of its log files.
        annotations: the format of the annotations that record a pod's cards; None if there is none.
        also_written: other pod annotations that are written by its scheduler or device plugin, not by users.
        plugin_writes: whether a device plugin of another system writes these annotations.
        environment: the environment variables of a container, with the placeholders `{card}`, `{capacity}`, `{pod}` and
            `{container}`, in units.
        pod_rules: the annotations that restrict the choice of cards.
        groups: the annotation with nested groups of cards; None if there is none.
        card_labels: the node labels from which cards are read if accelkit's agent does not publish an inventory; None
            if there are none.
        preferred_card: the suffix of the node labels whose value is the name of the card that is assigned first.
        disabled_cards: the prefix, before a card's name, in the keys of labels that exclude the card from placement.
        unhealthy_cards: the ConfigMap with the unhealthy cards of a node; None if there is none.
        extender_path: the base path of its extender; empty if there is none.
        inspect: the format of its extender's response to `inspect`; None if there is none.
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
        """Whether no device plugin of another system serves the resources of this dialect."""
        return not any(map(is_plugin_resource, self.resources.requestable))

    @property
    def assignment_keys(self) -> tuple[str, ...]:
        """The pod annotations that are written by schedulers and device plugins, not by users."""
        return (*(self.annotations.keys if self.annotations else ()), *self.also_written)

    @property
    def annotation_keys(self) -> frozenset[str]:
        """The pod annotations that this dialect reads."""
        rules = self.pod_rules
        bounds = tuple(filter(None, msgspec.structs.astuple(rules))) if rules else ()
        groups = (self.groups.annotation,) if self.groups else ()
        return frozenset((*(self.annotations.keys if self.annotations else ()), *bounds, *groups))

    def without(self, annotations: Collection[str]) -> Dialect:
        """Return the dialect with only the pod rules that do not use any of these annotations."""
        if (rules := self.pod_rules) is None or not annotations:
            return self
        kept = {name: "" if key in annotations else key for name, key in msgspec.structs.asdict(rules).items()}
        return msgspec.structs.replace(self, pod_rules=PodRules(**kept))

    def format_misfit(self, misfit: Misfit) -> str:
        """Return the message for a misfit. User-provided text is truncated, as the message is repeated per node."""
        pattern = self.texts.get(misfit.reason) or _COMMON[misfit.reason]
        counted = count_cards(misfit.cards)
        return pattern.format(cards=misfit.cards, counted=counted, detail=shorten(misfit.detail))
