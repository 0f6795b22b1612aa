"""The simulated nodes of the sandbox, with their cards.

A nodes file is a YAML file. Sizes may have units, and a count may be used to specify several equal cards:

    nodes:
      - name: node-1
        labels: {zone: a}
        cards:
          - {count: 8, memory: 16GiB, model: sim-16g, target: "hip:gfx90a"}

Without a nodes file, the sandbox has three nodes: one with eight equal cards, one with different cards, and one without
cards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from ruamel.yaml.error import YAMLError

from accelkit.errors import QuantityError, SandboxError
from accelkit.model.card import TARGET_PATTERN
from accelkit.model.units import parse_size
from accelkit.yaml import load_yaml

__all__ = ["PRESENT_LABEL", "NodeSpec", "SimulatedCard", "encode_cards", "load_nodes"]

# The label that Node Feature Discovery adds to nodes with a certain PCI device.
PRESENT_LABEL = "feature.node.kubernetes.io/pci-simulated.present"

_GIB = 2**30
_CARD_ID_LENGTH = 48
_MAX_CARDS = 1024
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_KERNEL = r"^([0-9][-A-Za-z0-9.+_~]{0,63})?$"
_SYSTEM = "accelkit simulated node"
_CARD_ID = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


class SimulatedCard(msgspec.Struct, frozen=True, kw_only=True):
    """A card in a simulated node.

    Attributes:
        numa: the NUMA node of the card, or None.
        target: the kernel target of the simulated card, such as `hip:gfx90a`; may be empty.
    """

    id: str
    model: str
    memory_bytes: int
    numa: int | None = None
    target: str = ""


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A simulated node.

    Attributes:
        cpu: the number of CPU cores.
        memory_bytes: the memory of the host.
        pods: the maximum number of pods.
        kernel: the kernel release that the node reports. If it is empty, the node reports the release of this machine.
        system: the name of the operating system as in os-release, such as `Debian GNU/Linux 12 (bookworm)`.
    """

    name: str
    cards: tuple[SimulatedCard, ...] = ()
    labels: dict[str, str] = {}
    cpu: int = 16
    memory_bytes: int = 64 * _GIB
    pods: int = 110
    kernel: str = ""
    system: str = _SYSTEM


class _CardEntry(msgspec.Struct, forbid_unknown_fields=True):
    memory: str
    model: str = ""
    id: str = ""
    count: int = 1
    numa: int | None = None
    target: Annotated[str, msgspec.Meta(pattern=TARGET_PATTERN)] = ""


class _NodeEntry(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    cards: list[_CardEntry] = []
    labels: dict[str, str] = {}
    cpu: int = 16
    memory: str = "64GiB"
    pods: int = 110
    kernel: Annotated[str, msgspec.Meta(pattern=_KERNEL)] = ""
    system: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = _SYSTEM


class _NodesFile(msgspec.Struct, forbid_unknown_fields=True):
    nodes: list[_NodeEntry]


def load_nodes(path: Path | None) -> list[NodeSpec]:
    """Load the nodes from a file; return the three default nodes if `path` is None.

    Raises:
        SandboxError: the file cannot be read or is invalid. The message contains the path and the invalid entry.
    """
    if path is None:
        return _make_default_nodes()
    try:
        document: Any = load_yaml(path.read_text())
        entries = msgspec.convert(document, _NodesFile).nodes
        specs = [_read_node(entry) for entry in entries]
    except (OSError, UnicodeDecodeError, YAMLError, msgspec.ValidationError, QuantityError, SandboxError) as exc:
        raise SandboxError(f"cannot read the nodes file {path}: {exc}") from exc
    if not specs:
        raise SandboxError(f"the nodes file {path} does not contain any nodes")
    _refuse_duplicates(path, "node name", (spec.name for spec in specs))
    _refuse_duplicates(path, "card id", (card.id for spec in specs for card in spec.cards))
    return specs


def encode_cards(spec: NodeSpec) -> bytes:
    """Return the content of a node's file `etc/accelkit/simulated-cards.json`, which the node agent reads."""
    cards = [{**msgspec.to_builtins(card), "index": index} for index, card in enumerate(spec.cards)]
    return msgspec.json.format(msgspec.json.encode({"version": 1, "cards": cards})) + b"\n"


def _make_default_nodes() -> list[NodeSpec]:
    mixed = [_CardEntry("16GiB", count=2), _CardEntry("32GiB", count=2)]
    eight = _CardEntry("16GiB", count=8)
    entries = [_NodeEntry("node-1", [eight]), _NodeEntry("node-2", mixed), _NodeEntry("node-3")]
    return [_read_node(entry) for entry in entries]


def _read_node(entry: _NodeEntry) -> NodeSpec:
    if not _DNS_LABEL.fullmatch(entry.name):
        raise SandboxError(
            f"{entry.name!r} is not a valid node name",
            next_step="use at most 63 characters from a-z, 0-9 and -, such as node-1",
        )
    if min(entry.cpu, entry.pods) < 1:
        raise SandboxError(f"{entry.name}: cpu and pods must be at least 1")
    cards: list[SimulatedCard] = []
    for card in entry.cards:
        cards.extend(_read_cards(entry.name, card, first=len(cards)))
    if len(cards) > _MAX_CARDS:
        raise SandboxError(f"{entry.name} has more than {_MAX_CARDS} cards")
    return NodeSpec(
        name=entry.name,
        cards=tuple(cards),
        labels=entry.labels,
        cpu=entry.cpu,
        memory_bytes=parse_size(entry.memory),
        pods=entry.pods,
        kernel=entry.kernel,
        system=entry.system,
    )


def _read_cards(node: str, entry: _CardEntry, *, first: int) -> list[SimulatedCard]:
    if not 1 <= entry.count <= _MAX_CARDS:
        raise SandboxError(f"{node}: count must be between 1 and {_MAX_CARDS}")
    if entry.id and entry.count > 1:
        raise SandboxError(f"{node}: an entry with an ID must be a single card; remove its count")
    memory_bytes = parse_size(entry.memory)
    model = entry.model or f"sim-{max(1, round(memory_bytes / _GIB))}g"
    return [
        SimulatedCard(
            id=_check_card_id(node, entry.id or f"sim-{node}-{index}"),
            model=model,
            memory_bytes=memory_bytes,
            numa=entry.numa,
            target=entry.target,
        )
        for index in range(first, first + entry.count)
    ]


def _check_card_id(node: str, card_id: str) -> str:
    if len(card_id) > _CARD_ID_LENGTH or not _CARD_ID.fullmatch(card_id):
        raise SandboxError(
            f"{node}: {card_id!r} is not a valid card ID",
            next_step=f"use at most {_CARD_ID_LENGTH} letters, digits, '-', '_' and '.', or a shorter node name",
        )
    return card_id


def _refuse_duplicates(path: Path, kind: str, names: Iterable[str]) -> None:
    known: set[str] = set()
    for name in names:
        if name in known:
            raise SandboxError(f"the nodes file {path} contains the {kind} {name} twice")
        known.add(name)
