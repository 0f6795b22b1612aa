"""What is extracted below a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from accelkit.kernelcache.extraction import Extracted, completed
from accelkit.kernelcache.extraction.folder import Place

_NAME = re.compile(r"(?P<digest>sha256-[0-9a-f]{64})(?:-[0-9a-f]{8})?")
_RECORD = "complete.json"
_MAX_RECORD_BYTES = 1 << 20


@dataclass(frozen=True)
class Listing:
    """What lies below a folder.

    Attributes:
        caches: those that are there whole, by path.
        unusable: folders named like one, without a record that can be understood here.
    """

    caches: tuple[Extracted, ...] = ()
    unusable: tuple[Path, ...] = ()


class _MountPath(msgspec.Struct, frozen=True):
    mount_path: str


def list_extracted(base: Path) -> Listing:
    """List the caches below a folder; none where there is no such folder.

    Raises:
        OSError: it cannot be read.
    """
    caches, unusable = [], []
    for folder in sorted(base.absolute().iterdir()) if base.is_dir() else ():
        name = _NAME.fullmatch(folder.name)
        if name is None:
            continue
        place = Place(name["digest"].replace("-", ":"), folder, _mount_path(folder))
        record = completed(place)
        if record is None:
            unusable.append(folder)
        else:
            caches.append(Extracted(place, record, fresh=False))
    return Listing(tuple(caches), tuple(unusable))


def _mount_path(folder: Path) -> str:
    try:
        with (folder / _RECORD).open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_RECORD_BYTES), type=_MountPath).mount_path
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return ""
