"""Response to Allocate for one container, with the environment, mounts and device nodes from the vendor's profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.model.keys import MEMORY_VARIABLE
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node.device_plugin.cdi import find_cdi_name
from accelkit.node.devices import DeviceIds
from accelkit.node.discovery import FoundCard
from accelkit.node.enforcement.mps import DEFAULT_MPS, MpsFolders, build_mps_environment, is_replaced, list_mps_mounts
from accelkit.vendors.profiles import Profile

# The memory that the program in the container may use.


def build_container_response(
    device_ids: Sequence[str],
    cards: Sequence[FoundCard],
    root: Path,
    *,
    unit_bytes: int | None,
    mps: MpsFolders = DEFAULT_MPS,
) -> api.ContainerAllocateResponse:
    """Return the response to the kubelet for one container.

    Args:
        device_ids: the device IDs that the kubelet chose.
        cards: the cards of this node.
        root: the host's root folder, in which the optional device nodes of a profile may exist.
        unit_bytes: the size of one device, in bytes; None if each device is a whole card.
        mps: the folders of NVIDIA's MPS control daemon.

    Raises:
        DevicePluginError: an ID belongs to a card that does not exist on this node or whose device nodes are unknown,
            or a container has replaced a folder of MPS.
    """
    units = DeviceIds(found.card.id for found in cards).count_by_card(device_ids)
    granted = [found for found in cards if found.card.id in units]
    if unknown := units.keys() - {found.card.id for found in granted}:
        raise DevicePluginError(
            f"the kubelet chose devices of cards that this node does not have: {', '.join(sorted(unknown))}"
        )
    answer = api.ContainerAllocateResponse()
    if unit_bytes is not None:
        answer.envs[MEMORY_VARIABLE] = str(len(device_ids) * unit_bytes)
    elif all(found.card.memory_bytes is not None for found in granted):
        # If the memory of a card is unknown, the sum would be too small or 0.
        answer.envs[MEMORY_VARIABLE] = str(sum(found.card.own_bytes for found in granted))
    if unit_bytes is not None and all(found.card.enforcement == "mps" for found in granted):
        limits = {found.uuid or found.card.id: units[found.card.id] * unit_bytes for found in granted}
        _add_mps_client(answer, limits, root, mps)
    for profile in {found.profile.name: found.profile for found in granted}.values():
        own = [found for found in granted if found.profile.name == profile.name]
        answer.envs.update(build_environment(profile, own))
        names = _list_cdi_names(root, profile, own)
        if len(names) == len(own):
            # The runtime adds the device nodes, so the response must not list them again.
            for name in names:
                answer.cdi_devices.add(name=name)
            continue
        paths = [path for f in own for path in list_card_nodes(f)]
        paths += [path for path in profile.node_nodes if (root / path.removeprefix("/")).exists()]
        for path in paths:
            answer.devices.add(container_path=path, host_path=path, permissions="rw")
    return answer


def build_dialect_environment(
    patterns: Mapping[str, str],
    device_ids: Sequence[str],
    cards: Sequence[FoundCard],
    *,
    unit_bytes: int,
    pod_units: int,
) -> Mapping[str, str]:
    """Return a dialect's variables for a container that has memory units of one card; empty if it has several cards.

    Args:
        patterns: the variables, with the placeholders `{card}`, `{capacity}`, `{pod}` and `{container}`.
        device_ids: the device IDs that the kubelet chose.
        cards: the cards of this node.
        unit_bytes: the size of one device, in bytes.
        pod_units: the total number of devices of all containers of the pod.
    """
    held = DeviceIds(found.card.id for found in cards).count_by_card(device_ids)
    granted = [found.card for found in cards if found.card.id in held]
    if len(granted) != 1 or granted[0].number is None:
        return {}
    facts = {
        "card": granted[0].number,
        "capacity": granted[0].capacity_bytes // unit_bytes,
        "pod": pod_units,
        "container": len(device_ids),
    }
    return {name: pattern.format(**facts) for name, pattern in patterns.items()}


def build_environment(profile: Profile, cards: Sequence[FoundCard]) -> Mapping[str, str]:
    """Return the environment variables for a container's cards from one vendor; omit variables with unknown values."""
    facts: Mapping[str, Sequence[str | int | None]] = {
        "ids": [found.card.id for found in cards],
        "uuids": [found.uuid for found in cards],
        "indices": [found.index for found in cards],
        "minors": [found.minor for found in cards],
        "ordinals": range(len(cards)),
    }
    known = {name: ",".join(map(str, values)) for name, values in facts.items() if None not in values}
    return {name: text for name, pattern in profile.environment.items() if (text := _fill(pattern, known)) is not None}


def list_card_nodes(found: FoundCard) -> Sequence[str]:
    """Return the device nodes of a card.

    Raises:
        DevicePluginError: the number that the driver assigned to the card is unknown, and a guess could be the number
            of another card.
    """
    numbers = {"index": found.index, "minor": found.minor, "render": found.render}
    known = {name: str(number) for name, number in numbers.items() if number is not None}
    paths = [_fill(pattern, known) for pattern in found.profile.card_nodes]
    named = [path for path in paths if path is not None]
    if len(named) == len(paths) and found.part_nodes is not None:
        return [*named, *found.part_nodes]
    raise DevicePluginError(
        f"the device nodes of card {found.card.id} are not known",
        next_step=f"check that its driver ({found.driver or 'none is bound'}) is the vendor's",
    )


def list_own_nodes(found: FoundCard) -> Sequence[str]:
    """Return the device nodes that belong only to this card.

    For a part of a card, the nodes of the containing card are omitted.

    Raises:
        DevicePluginError: the number that the driver assigned to the card is unknown.
    """
    nodes = list_card_nodes(found)
    return list(found.part_nodes) if found.part_nodes else nodes


def find_cards_by_address(cards: Sequence[FoundCard]) -> dict[str, str]:
    """Return the IDs of cards by PCI address. Omit parts of cards, because an address does not identify a part."""
    return {each.card.bdf: each.card.id for each in cards if each.card.bdf and each.part_of is None}


def _add_mps_client(
    answer: api.ContainerAllocateResponse, limits: Mapping[str, int], root: Path, folders: MpsFolders
) -> None:
    if is_replaced(root, folders):
        raise DevicePluginError(
            f"the folder {folders.shared_memory} of MPS is, or is below, a symbolic link that a container may have "
            "created",
            next_step="find the container that replaced it, and restart the MPS control daemon",
        )
    answer.envs.update(build_mps_environment(limits, folders))
    for path, host_path in list_mps_mounts(folders).items():
        answer.mounts.add(container_path=path, host_path=host_path)


def list_cdi_kinds(root: Path, cards: Sequence[FoundCard]) -> tuple[str, ...]:
    """Return the sorted kinds of the CDI devices that represent these cards; empty if CDI is not used."""
    kinds = {each.profile.cdi for each in cards if _list_cdi_names(root, each.profile, [each])}
    return tuple(sorted(kind for kind in kinds if kind is not None))


def _list_cdi_names(root: Path, profile: Profile, cards: Sequence[FoundCard]) -> Sequence[str]:
    """Return the CDI names of the cards that the host's CDI specifications contain."""
    kind = profile.cdi
    if kind is None:
        return []
    # `FoundCard.minor` of a part may be the number of the whole card, so `Card.minor` is used.
    known = ([str(n) for n in (f.card.id, f.uuid, f.card.minor) if n is not None] for f in cards)
    return [name for names in known if (name := find_cdi_name(root, kind, names)) is not None]


def _fill(pattern: str, known: Mapping[str, str]) -> str | None:
    try:
        return pattern.format_map(known)
    except KeyError:
        return None
