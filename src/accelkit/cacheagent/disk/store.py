"""The folder of extracted caches on the node, and the links by which pods find them.

ROOT/sha256-<hex>…/          caches, as `accelkit cache extract` leaves them
ROOT/claims/<20 digits>      a link to the `cache` folder of one of them, for each cache that pods may mount
ROOT/.agent.json             the ledger
"""

from __future__ import annotations

import contextlib
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Final

from accelkit.cacheagent.disk.ledger import Ledger, read_ledger, write_ledger
from accelkit.cacheagent.planning.world import WITHDRAWN, Disk, Stored
from accelkit.errors import CacheError, ConfigurationError
from accelkit.gkm import names
from accelkit.kernelcache.extraction import CompletionRecord
from accelkit.kernelcache.extraction.folder import CACHE, Place, lock_place
from accelkit.kernelcache.extraction.listing import list_extracted
from accelkit.kernelcache.extraction.reader_thread import run_to_completion

_LEFTOVER: Final = re.compile(r"\.(?P<folder>sha256-[0-9a-f]{64}(-[0-9a-f]{8})?)\.(partial|displaced)")
_LINK: Final = re.compile(r"[0-9a-f]{20}")
_TARGET: Final = re.compile(rf"\.\./(?P<folder>sha256-[0-9a-f]{{64}}(-[0-9a-f]{{8}})?)/{CACHE}")


class Store:
    """The store of one node; the agent alone writes there.

    Args:
        root: its folder, made where it is missing.
        max_bytes: what all caches may take; None for no limit but the disk.
        min_free_bytes: what must stay free on its disk.
    """

    def __init__(self, root: Path, *, max_bytes: int | None = None, min_free_bytes: int = 0) -> None:
        self.root = root.absolute()
        self._claims = Path(names.build_link_path("", self.root)).parent
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self.ledger = Ledger()
        self.stored: dict[str, Stored] = {}
        self.broken: frozenset[str] = frozenset()
        self.links: dict[str, str] = {}

    async def open(self) -> None:
        """Make the folders, clear what a killed extraction left, and read what there is.

        Raises:
            ConfigurationError: the folder cannot be used.
        """
        try:
            self._claims.mkdir(parents=True, exist_ok=True)
            self.ledger = read_ledger(self.root)
            await self._clear_leftovers()
            await self.refresh()
        except OSError as exc:
            raise ConfigurationError(
                f"the folder of kernel caches {self.root} cannot be used: {exc.strerror or exc}",
                next_step="mount the host's folder writable for this user, or name another with --folder",
            ) from exc

    async def refresh(self) -> None:
        """Read anew what lies there.

        Raises:
            OSError: it cannot be read.
        """
        listing = await run_to_completion(lambda: list_extracted(self.root))
        found = {each.place.folder.name: each.record for each in listing.caches}
        self.stored = {folder: self._describe(folder, record) for folder, record in found.items()}
        self.broken = frozenset(path.name for path in listing.unusable)
        self.links = self._read_links()

    def take(self, folder: str, record: CompletionRecord, policies: str) -> None:
        """Take over what was extracted, or found to satisfy these policies.

        Raises:
            OSError: it cannot be written down.
        """
        self.ledger.note_satisfied(folder, policies, _read_time(record.verified_at))
        self.stored[folder] = self._describe(folder, record)
        self.broken -= {folder}
        self.write_ledger()

    def write_ledger(self) -> None:
        """Write down what has to be remembered.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        self.ledger.forget(self.stored)
        write_ledger(self.root, self.ledger)

    def measure_disk(self) -> Disk:
        """Return what the disk has free.

        Raises:
            OSError: it cannot be asked.
        """
        disk = os.statvfs(self.root)
        return Disk(disk.f_bavail * disk.f_frsize, self._max_bytes, self._min_free_bytes)

    def move_link(self, link: str, target: str | None) -> None:
        """Lead a link to a folder of the store, to nowhere (WITHDRAWN), or remove it (None), in one step.

        Raises:
            OSError: it cannot be written, or something is in its way.
        """
        path = self._claims / link
        if target is None:
            path.unlink(missing_ok=True)
            self.links.pop(link, None)
            return
        # Runtimes make a folder where they find nothing, and pods would start with it.
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        new = self._claims / f".{link}.new"
        new.unlink(missing_ok=True)
        new.symlink_to(WITHDRAWN if target == WITHDRAWN else f"../{target}/{CACHE}")
        new.rename(path)
        self.links[link] = target

    async def collect(self, folder: str) -> bool:
        """Delete a folder that nobody needs; False where somebody else is at it.

        Raises:
            OSError: it cannot be deleted; what is left of it is invisible.
        """
        place = self._find_place(folder)
        try:
            async with lock_place(place, 0.0):
                await run_to_completion(place.clear_leftovers)
                if place.folder.exists():
                    place.folder.rename(place.displaced)
                self.stored.pop(folder, None)
                self.broken -= {folder}
                await run_to_completion(place.clear_leftovers)
        except CacheError:
            return False
        return True

    async def _clear_leftovers(self) -> None:
        for path in list(self.root.iterdir()):
            if (found := _LEFTOVER.fullmatch(path.name)) is not None:
                place = self._find_place(found["folder"])
                # Somebody who extracts by hand holds the lock, and clears what is his.
                with contextlib.suppress(CacheError):
                    async with lock_place(place, 0.0):
                        await run_to_completion(place.clear_leftovers)

    def _find_place(self, folder: str) -> Place:
        return Place(folder, self.root / folder, "")

    def _describe(self, folder: str, record: CompletionRecord) -> Stored:
        satisfied = dict(self.ledger.satisfied.get(folder, {}))
        if record.policy_digest:
            satisfied[record.policy_digest] = _read_time(record.verified_at)
        return Stored(record.files, record.size_bytes, record.labels, satisfied)

    def _read_links(self) -> dict[str, str]:
        links = {}
        for path in self._claims.iterdir():
            if _LINK.fullmatch(path.name) and path.is_symlink():
                found = _TARGET.fullmatch(str(path.readlink()))
                links[path.name] = found["folder"] if found is not None else WITHDRAWN
        return links


def _read_time(text: str) -> float:
    """Return a record's time, in seconds since 1970; 0 where it says none, which is long ago."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0
