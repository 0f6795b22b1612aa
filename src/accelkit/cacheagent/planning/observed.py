"""Fields of pods and of the agent's node that the agent uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from accelkit.cacheagent.planning.pod_variables import Container, read_variables
from accelkit.errors import InventoryError
from accelkit.gkm.names import COPY_SOURCE_SUFFIX, name_private_copy
from accelkit.kernelcache.compatibility.node_facts import NodeHardware
from accelkit.model.card import Card
from accelkit.model.inventory import decode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.object_meta import ObjectMeta

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class _Named(msgspec.Struct):
    name: str = ""


class _Claim(msgspec.Struct, rename="camel"):
    claim_name: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    name: str = ""
    persistent_volume_claim: _Claim | None = None
    ephemeral: dict[str, Any] | None = None

    def find_claim(self, pod: str) -> str:
        """Return the name of the claim that this volume of a pod uses; empty if the volume does not use a claim.

        The claim of a generic ephemeral volume may have been created before the pod.
        """
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return f"{pod}-{self.name}" if self.ephemeral is not None else ""


class _Spec(msgspec.Struct, rename="camel"):
    volumes: list[_Volume] | None = None
    containers: list[Container] = []
    init_containers: list[_Named] | None = None


class _State(msgspec.Struct):
    waiting: dict[str, Any] | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    state: _State = msgspec.field(default_factory=_State)
    restart_count: int = 0


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class Pod(msgspec.Struct):
    """A pod on the node."""

    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True)
class MountingPod:
    """A running or starting pod on the node that mounts claims.

    Attributes:
        uid: UID of the pod.
        namespace: namespace of the pod.
        name: name of the pod.
        claims: names of the claims that the pod mounts.
        copies: names of the claims from which private copies are created, keyed by the volume name of the copy.
        variables: environment variables that may cause cache misses, with one mapping per container, keyed by the
            volume name of the private copy.
        starting: whether a container of the pod has not been created yet.
        readable: whether the pod could be parsed. If not, the pod may use any folder.
    """

    uid: str
    namespace: str
    name: str
    claims: frozenset[str]
    copies: Mapping[str, str] = field(default_factory=dict)
    starting: bool = False
    readable: bool = True
    variables: Mapping[str, tuple[Mapping[str, str], ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def trim_pod(pod: Pod) -> None:
    """Remove the fields of a pod that the agent does not use."""
    pod.metadata.annotations = pod.metadata.labels = None


def read_mounting_pod(pod: Pod) -> MountingPod | None:
    """Return the claims and private copies of a pod; None if the pod mounts no claim or has terminated."""
    meta, volumes = pod.metadata, pod.spec.volumes or ()
    sources = {each.name: claim for each in volumes if (claim := each.find_claim(meta.name))}
    claims = frozenset(sources.values())
    if not claims or pod.status.phase in _ENDED:
        return None
    copies = _find_copies(volumes, sources)
    variables = read_variables(pod.spec.containers, copies)
    return MountingPod(
        meta.uid, meta.namespace, meta.name, claims, copies, starting=_is_starting(pod), variables=variables
    )


def _find_copies(volumes: Sequence[_Volume], sources: Mapping[str, str]) -> dict[str, str]:
    named = {name_private_copy(name): claim for name, claim in sources.items()}
    named |= {
        name.removesuffix(COPY_SOURCE_SUFFIX): claim
        for name, claim in sources.items()
        if name.endswith(COPY_SOURCE_SUFFIX)
    }
    return {each.name: named[each.name] for each in volumes if each.name in named and each.name not in sources}


def _is_starting(pod: Pod) -> bool:
    # A container that restarts repeatedly was created earlier, so it must not delay a new digest.
    if pod.status.phase != "Running":
        return True
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    declared = len(pod.spec.containers) + len(pod.spec.init_containers or ())
    return len(statuses) < declared or any(
        each.state.waiting is not None and not each.restart_count for each in statuses
    )


class _NodeInfo(msgspec.Struct):
    architecture: str = ""


class _NodeStatus(msgspec.Struct, rename="camel"):
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)


class Node(msgspec.Struct):
    """The agent's own node."""

    metadata: ObjectMeta
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


@dataclass(frozen=True)
class OwnNode:
    """Facts about the node that determine the verdicts for caches.

    Attributes:
        facts: cards and CPU of the node; the cards are None if the inventory is unknown.
        cards: cards in the inventory of the node.
        uid: UID of the node.
        problem: message that explains why the inventory is invalid; empty if it is valid or missing.
    """

    facts: NodeHardware
    cards: tuple[Card, ...] = ()
    problem: str = ""
    uid: str = ""

    def number_of(self, card_id: str) -> int | None:
        """Return the card index that is displayed to users; None if the node does not have the card."""
        for place, card in enumerate(self.cards):
            if card.id == card_id:
                return place if card.number is None else card.number
        return None

    def find_driver(self, card: Card) -> str:
        """Return the driver version of a card; empty if it is unknown."""
        judged = next((each for each in self.facts.gpus or () if each.id == card.id), None)
        return card.driver_version or (judged.driver_version if judged is not None else None) or ""


def read_own_node(node: Node) -> OwnNode:
    """Return the facts about a node. If its inventory is invalid, the cards are unknown."""
    architecture = node.status.node_info.architecture or None
    text = (node.metadata.annotations or {}).get(INVENTORY_ANNOTATION)
    unknown = NodeHardware(cpu_architecture=architecture)
    if text is None:
        return OwnNode(unknown, uid=node.metadata.uid)
    try:
        cards = decode_inventory(text).cards
    except InventoryError as exc:
        problem = f"cannot use the inventory of the node: {exc}"
        return OwnNode(unknown, problem=problem, uid=node.metadata.uid)
    facts = NodeHardware.from_inventory(cards, cpu_architecture=architecture, labels=node.metadata.labels)
    return OwnNode(facts, cards, uid=node.metadata.uid)
