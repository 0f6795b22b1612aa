"""List of the extracted caches below a folder."""

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
    """The caches below a folder.

    Attributes:
        caches: the complete caches, sorted by path.
        unusable: folders that are named like cache folders, but have no valid record.
    """

    caches: tuple[ExtractionResult, ...] = ()
    unusable: tuple[Path, ...] = ()


def list_extracted(base: Path) -> Listing:
    """Return the caches below a folder; the list is empty if the folder does not exist.

    Raises:
        OSError: the folder cannot be read.
    """
    caches, unusable = [], []
    for folder in sorted(base.absolute().iterdir()) if base.is_dir() else ():
        if _NAME.fullmatch(folder.name) is None:
            continue
        digest, suffix = folder.name[:_DIGEST_CHARACTERS], folder.name[_DIGEST_CHARACTERS + 1 :]
        stored = read_record(folder)
        place = Place(digest.replace("-", ":"), folder, stored.mount_path if stored is not None else "")
        # Extraction ignores a record whose mount path does not match the name of its folder.
        record = read_completed(place) if hash_path(place.mount_path).startswith(suffix) else None
        if record is None:
            unusable.append(folder)
        else:
            caches.append(ExtractionResult(place, record, fresh=False))
    return Listing(tuple(caches), tuple(unusable))
