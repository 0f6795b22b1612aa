"""Reader of the Container Device Interface (CDI) specifications that the host provides to its container runtime.

The files are in /etc/cdi and /var/run/cdi. The agent requests a card for a container by its CDI name. The container
runtime then adds the device nodes, the libraries and everything else that the vendor's toolkit listed in the file.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import msgspec
from ruamel.yaml.error import YAMLError

from accelkit.decoding import prepare
from accelkit.yaml import load_yaml

log = logging.getLogger(__name__)

# If several folders define a device, the last folder takes precedence.
_FOLDERS = (Path("etc/cdi"), Path("var/run/cdi"))


class _Device(msgspec.Struct):
    name: str


class _Specification(msgspec.Struct):
    kind: str
    devices: list[_Device] = []


prepare(_Specification)


def find_cdi_name(root: Path, kind: str, names: Collection[str]) -> str | None:
    """Return the CDI name of a card, such as `nvidia.com/gpu=GPU-1b2c`; None if no specification contains the card.

    Args:
        root: the host's root folder.
        kind: the vendor's kind, such as `nvidia.com/gpu`.
        names: the names under which a specification may list the card.
    """
    found = None
    for folder in _FOLDERS:
        for path in sorted((root / folder).glob("*")):
            if path.suffix in (".json", ".yaml", ".yml"):
                described = _read_devices(path, _read_mtime(path))
                found = next((f"{kind}={name}" for name in names if (kind, name) in described), found)
    return found


def _read_mtime(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=32)
def _read_devices(path: Path, _changed_at: int) -> frozenset[tuple[str, str]]:
    """Return the kind and name of each device in a file. If it is unreadable, log a warning and return no devices."""
    try:
        document = load_yaml(path.read_text())
        specification = msgspec.convert(document, _Specification)
    except (OSError, UnicodeDecodeError, YAMLError, msgspec.ValidationError) as exc:
        log.warning("cannot read the CDI file %s, which is ignored: %s", path, exc)
        return frozenset()
    return frozenset((specification.kind, device.name) for device in specification.devices)
