"""Reader of the device node names that the tools from Enflame, and from vendors that resell its cards, write to a file.

{"mainDevice": ["/dev/gcu"], "driverDevice": ["/dev/gcuctl"], …}
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from accelkit.errors import DevicePluginError
from accelkit.vendors.profiles import Profile


class _NodesFile(msgspec.Struct):
    main_device: list[str] = msgspec.field(name="mainDevice", default_factory=list)
    driver_device: list[str] = msgspec.field(name="driverDevice", default_factory=list)


_nodes_file = msgspec.json.Decoder(_NodesFile)


def apply_nodes_file(root: Path, profile: Profile) -> Profile:
    """Return the profile with the names of the device nodes on this host.

    Raises:
        DevicePluginError: the file exists, but cannot be read, so the names are unknown.
    """
    if profile.nodes_file is None:
        return profile
    path = root / profile.nodes_file
    try:
        named = _nodes_file.decode(path.read_bytes())
    except FileNotFoundError:
        return profile
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise DevicePluginError(f"cannot read the names of device nodes in {path}: {exc}") from exc
    if any(set("{}") & set(name) for name in (*named.main_device, *named.driver_device)):
        raise DevicePluginError(f"{path} contains device node names with braces, which are invalid")
    return msgspec.structs.replace(
        profile,
        card_nodes=tuple(f"{name}{{minor}}" for name in named.main_device) or profile.card_nodes,
        node_nodes=tuple(named.driver_device) or profile.node_nodes,
    )
