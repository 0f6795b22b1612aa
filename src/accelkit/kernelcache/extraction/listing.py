"""Lists the extracted caches below a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from accelkit.kernelcache.extraction import ExtractionResult, read_completed
from accelkit.kernelcache.extraction.folder import FOLDER_NAME, Place, hash_path
from accelkit.kernelcache.extraction.record import read_record

_NAME = re.compile(FOLDER_NAME)
_DIGEST_CHARACTERS = len("sha256-") + 64


@dataclass(frozen=True)
class Listing:
    """What lies below a folder.

    Attributes:
        caches: those that are there whole, by path.
        unusable: folders named like one, without a record that can be understood here.
    """

    caches: tuple[ExtractionResult, ...] = ()
    unusable: tuple[Path, ...] = ()


def list_extracted(base: Path) -> Listing:
    """List the caches below a folder; none where there is no such folder.

    Raises:
        OSError: it cannot be read.
    """
    caches, unusable = [], []
    for folder in sorted(base.absolute().iterdir()) if base.is_dir() else ():
        if _NAME.fullmatch(folder.name) is None:
            continue
        digest, suffix = folder.name[:_DIGEST_CHARACTERS], folder.name[_DIGEST_CHARACTERS + 1 :]
        known = read_record(folder)
        place = Place(digest.replace("-", ":"), folder, known.mount_path if known is not None else "")
        # One that says another mount path than its name is for nobody who asks by name.
        record = read_completed(place) if hash_path(place.mount_path).startswith(suffix) else None
        if record is None:
            unusable.append(folder)
        else:
            caches.append(ExtractionResult(place, record, fresh=False))
    return Listing(tuple(caches), tuple(unusable))
