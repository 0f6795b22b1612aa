"""What the checker compares, read from Kubernetes' own objects: pods, nodes, kubelets' allocations and the ledger.

Shares no code with accelkit: what is read here are the contracts that its documentation names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

WHOLE = -1
# Resources by which containers ask, of the dialects that accelkit's agents serve.
MEMORY_RESOURCES = ("accelkit.io/memory", "enflame.com/gcu-memory", "aliyun.com/gpu-mem")
CARD_RESOURCES = ("accelkit.io/cards", "enflame.com/gcu-count", "aliyun.com/gpu-count")
GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
GROUP_SIZE_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
MOVING = "(moving)"

# Bytes by card, WHOLE for all of it.
Shares = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container that asks for cards; `kind` is init, sidecar or app."""

    name: str
    kind: str
    memory: int = 0
    cards: int = 0
    resources: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod that asks for cards.

    Attributes:
        node: empty while it is not bound.
        assigned: what its annotation says, by container; None without a readable one.
        schedulable: whether kube-scheduler looks at it.
    """

    namespace: str
    name: str
    uid: str
    containers: tuple[Container, ...]
    node: str = ""
    phase: str = "Pending"
    reason: str = ""
    deleting: bool = False
    started: str = ""
    assigned: Mapping[str, Shares] | None = None
    schedulable: bool = True
    selector: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    group_size: int = 0

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def holds(self) -> bool:
        """Whether it holds cards: it is bound and has not ended."""
        return bool(self.node) and self.phase not in ("Succeeded", "Failed")


@dataclass(frozen=True, kw_only=True)
class Card:
    """A card of an inventory; `usable` is whether new pods may go on it."""

    id: str
    capacity: int
    usable: bool = True


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with an inventory. `former_units` are pairs of bytes and the Unix second of their end, oldest first."""

    name: str
    cards: Mapping[str, Card]
    unit: int
    former_units: tuple[tuple[int, int], ...] = ()
    schedulable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)

    def find_unit(self, pod: Pod) -> int:
        """Return what a unit was worth when the pod got its devices, which its start tells."""
        if pod.started:
            started = datetime.fromisoformat(pod.started).timestamp()
            for unit, until in self.former_units:
                if started <= until:
                    return unit
        return self.unit


# Device IDs by container and resource.
Given = Mapping[str, Mapping[str, tuple[str, ...]]]


@dataclass(frozen=True, kw_only=True)
class LedgerShare:
    """What the ledger counts for one container on one card."""

    node: str
    card: str
    uid: str
    pod: str
    container: str
    amount: int
    bound: bool


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What the leading extender counts; `unassigned` are UIDs of pods whose cards it does not know."""

    shares: tuple[LedgerShare, ...]
    used: Mapping[tuple[str, str], int]
    capacity: Mapping[tuple[str, str], int]
    unassigned: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The cluster at one moment, or nearly.

    Attributes:
        given: by node and by the pod's UID, what kubelets gave; a node is missing whose kubelet cannot be read.
        ledger: None where no extender answers.
    """

    pods: tuple[Pod, ...]
    nodes: Mapping[str, Node]
    given: Mapping[str, Mapping[str, Given]]
    ledger: Ledger | None


def read_pod(item: Mapping[str, Any]) -> Pod | None:
    """Read a pod; None where it asks for no cards."""
    meta, spec, status = item["metadata"], item["spec"], item.get("status", {})
    containers = [
        *(
            _read_container(each, "sidecar" if each.get("restartPolicy") == "Always" else "init")
            for each in spec.get("initContainers", ())
        ),
        *(_read_container(each, "app") for each in spec["containers"]),
    ]
    asking = tuple(each for each in containers if each.memory or each.cards)
    if not asking:
        return None
    labels = meta.get("labels") or {}
    return Pod(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        containers=asking,
        node=spec.get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        reason=status.get("reason", ""),
        deleting="deletionTimestamp" in meta,
        started=status.get("startTime", ""),
        assigned=read_assignment((meta.get("annotations") or {}).get("accelkit.io/assignment")),
        schedulable=spec.get("schedulerName") == "default-scheduler" and not spec.get("affinity"),
        selector=spec.get("nodeSelector") or {},
        group=labels.get(GROUP_LABEL, ""),
        group_size=int(labels.get(GROUP_SIZE_LABEL, "0")),
    )


def _read_container(item: Mapping[str, Any], kind: str) -> Container:
    limits = item.get("resources", {}).get("limits", {})
    asked = {name: read_quantity(limits[name]) for name in (*MEMORY_RESOURCES, *CARD_RESOURCES) if name in limits}
    return Container(
        name=item["name"],
        kind=kind,
        memory=sum(asked.get(name, 0) for name in MEMORY_RESOURCES),
        cards=sum(asked.get(name, 0) for name in CARD_RESOURCES),
        resources=asked,
    )


def read_quantity(text: str | int) -> int:
    """Read a whole number as Kubernetes writes it, as 12 or 2k."""
    found = re.fullmatch(r"(\d+)(k|M|G|Ki|Mi|Gi)?", str(text))
    if found is None:
        raise ValueError(f"{text!r} is not a whole number")
    powers = {None: 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    return int(found[1]) * powers[found[2]]


def read_assignment(text: str | None) -> dict[str, dict[str, int]] | None:
    """Read the annotation of a pod; None where it has none, or one that cannot be read."""
    try:
        containers = json.loads(text or "")["containers"]
        return {
            name: {share["card"]: WHOLE if share.get("whole") else share["memory_bytes"] for share in shares}
            for name, shares in containers.items()
            if shares
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def read_node(item: Mapping[str, Any]) -> Node | None:
    """Read a node; None where it has no inventory."""
    meta, status = item["metadata"], item.get("status", {})
    text = (meta.get("annotations") or {}).get("accelkit.io/inventory")
    if text is None:
        return None
    inventory = json.loads(text)
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    spec = item.get("spec", {})
    taints = [each for each in spec.get("taints", ()) if each["effect"] in ("NoSchedule", "NoExecute")]
    return Node(
        name=meta["name"],
        cards={card["id"]: _read_card(card) for card in inventory["cards"]},
        unit=inventory["unit_bytes"],
        former_units=tuple((each["unit_bytes"], each["until"]) for each in inventory.get("former_units", ())),
        schedulable=(
            conditions.get("Ready") == "True"
            and not spec.get("unschedulable")
            and not taints
            # A node that waits for another unit takes no new shares.
            and not inventory.get("next_unit_bytes")
        ),
        labels=meta.get("labels") or {},
        allocatable={
            name: read_quantity(amount)
            for name, amount in status.get("allocatable", {}).items()
            if name in (*MEMORY_RESOURCES, *CARD_RESOURCES, "pods")
        },
    )


def _read_card(item: Mapping[str, Any]) -> Card:
    own = max(0, (item.get("memory_bytes") or 0) - item.get("reserved_bytes", 0))
    usable = item.get("health", "healthy") != "unhealthy" and not item.get("cordoned", False)
    return Card(id=item["id"], capacity=int(own * item.get("memory_factor", 1)), usable=usable)


def read_checkpoint(data: bytes) -> dict[str, dict[str, dict[str, tuple[str, ...]]]]:
    """Read a kubelet's `kubelet_internal_checkpoint`: device IDs by pod UID, container and resource."""
    found: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
    for entry in json.loads(data)["Data"]["PodDeviceEntries"] or ():
        if entry["ResourceName"] in (*MEMORY_RESOURCES, *CARD_RESOURCES):
            ids = entry["DeviceIDs"]
            listed = [each for group in ids.values() for each in group] if isinstance(ids, dict) else ids
            container = found.setdefault(entry["PodUID"], {}).setdefault(entry["ContainerName"], {})
            container[entry["ResourceName"]] = tuple(sorted(set(listed)))
    return found


def read_ledger(document: Mapping[str, Any]) -> Ledger:
    """Read what `GET /inspect` of the extender answers."""
    cards = [(node["name"], card) for node in document["nodes"] for card in node["cards"]]
    return Ledger(
        shares=tuple(
            LedgerShare(
                node=node,
                card=card["id"],
                uid=share["uid"],
                pod=f"{share['namespace']}/{share['pod']}",
                container=share["container"],
                amount=WHOLE if share["whole"] else share["memory_bytes"],
                bound=share["stage"] in ("bound", "confirmed"),
            )
            for node, card in cards
            for share in card["shares"]
        ),
        used={(node, card["id"]): card["used_bytes"] for node, card in cards},
        capacity={(node, card["id"]): card["capacity_bytes"] for node, card in cards if card["known"]},
        unassigned=frozenset(each["uid"] for node in document["nodes"] for each in node["unassigned"]),
    )


def build_alias(card: str) -> str:
    """Return how device IDs of memory name a card: five characters of its SHA-256 in base32."""
    return base64.b32encode(hashlib.sha256(card.encode()).digest()).decode().lower()[:5]


def find_card(node: Node, resource: str, device: str) -> str:
    """Return the card that a device ID names; the ID itself where the node has no such card."""
    if resource in CARD_RESOURCES:
        return device
    prefix = device.partition("::")[0]
    if prefix.startswith("="):
        return prefix[1:]
    return next((card for card in node.cards if build_alias(card) == prefix), device)
