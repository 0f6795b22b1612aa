"""Device nodes and environment variables that identify the cards of a container, according to the vendors' profiles.

Profiles contain patterns such as `/dev/nvidia{minor}`. The check program uses these patterns to find the device nodes
of its container, and the evaluation uses them to derive the expected device nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Final

from accelkit.model.card import Card
from accelkit.vendors.profiles import FileDiscovery, Profile

_DEV: Final = "/dev/"
# The value of a variable after the container runtime's hook has processed it.
_ANSWERED: Final = frozenset({"void"})


def list_card_nodes(devices: Path, profiles: Iterable[Profile]) -> tuple[str, ...]:
    """Return the device nodes below a folder that belong to cards of any vendor, such as `/dev/nvidia0`, sorted.

    Args:
        devices: the container's `/dev`.
        profiles: the profiles of the vendors.
    """
    patterns = {pattern for profile in profiles for pattern in profile.card_nodes if pattern.startswith(_DEV)}
    return tuple(sorted({f"{_DEV}{name}" for pattern in patterns for name in _find(devices, pattern)}))


def list_control_nodes(devices: Path, profiles: Iterable[Profile]) -> tuple[str, ...]:
    """Return the device nodes below a folder that all cards of a vendor share, such as `/dev/nvidiactl`, sorted."""
    paths = {path for profile in profiles for path in profile.node_nodes if path.startswith(_DEV)}
    return tuple(sorted(path for path in paths if (devices / path.removeprefix(_DEV)).exists()))


def find_wrong_variable(profile: Profile, card: Card, variables: Mapping[str, str]) -> str:
    """Return an error message if an environment variable of a container identifies a different card; otherwise, "".

    A variable whose value depends on unknown properties of the card is ignored.
    """
    known = {"ids": card.id, "minors": card.minor, "indices": card.index, "ordinals": 0}
    facts = {name: str(value) for name, value in known.items() if value is not None}
    for name, pattern in sorted(profile.environment.items()):
        if not _list_fields(pattern) <= facts.keys():
            continue
        expected, actual = pattern.format_map(facts), variables.get(name)
        if actual is None:
            return f"its {name} is missing; the value for card {card.id} is {expected}"
        if actual not in _ANSWERED and actual != expected:
            return f"its {name} is {actual}, but the value for card {card.id} is {expected}"
    return ""


def find_wrong_node(profile: Profile, card: Card, paths: Iterable[str]) -> str:
    """Return an error message if the vendor's device nodes do not match the container's only card; otherwise, ""."""
    # Simulated cards do not have device nodes, and a file on the host may define other names for device nodes.
    if isinstance(profile.discovery, FileDiscovery) or profile.nodes_file is not None:
        return ""
    facts = {name: str(number) for name, number in (("index", card.index), ("minor", card.minor)) if number is not None}
    nodes = list(paths)
    for pattern in profile.card_nodes:
        found = [path for path in nodes if _compile(pattern).fullmatch(path)]
        if not _list_fields(pattern) <= facts.keys():
            # It is unknown which card each device node belongs to, but the expected number of device nodes is known.
            if len(found) != 1:
                return f"it has {len(found)} device nodes that match {pattern}, but one card has only one"
            continue
        expected = pattern.format_map(facts)
        if expected not in found:
            return f"it lacks {expected}, the device node of card {card.id}"
        if others := [path for path in found if path != expected]:
            return f"it has {', '.join(others)} in addition to {expected} of card {card.id}"
    return ""


def _find(devices: Path, pattern: str) -> Iterator[str]:
    name = pattern.removeprefix(_DEV)
    for path in devices.glob(re.sub(r"\{\w+\}", "*", name)):
        relative = str(path.relative_to(devices))
        if _compile(pattern).fullmatch(f"{_DEV}{relative}"):
            yield relative


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    parts = ((re.escape(text), field) for text, field, _, _ in Formatter().parse(pattern))
    return re.compile("".join(text + ("[0-9]+" if field is not None else "") for text, field in parts))


def _list_fields(pattern: str) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(pattern) if field is not None}
