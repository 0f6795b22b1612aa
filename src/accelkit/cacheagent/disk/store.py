"""The folder of extracted caches on the node, and the links by which pods find them.

ROOT/sha256-<hex>…/          caches, as `accelkit cache extract` leaves them
ROOT/claims/<20 digits>      a link to the `cache` folder of one of them, for each cache that pods may mount
ROOT/.agent.json             the ledger
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Final

from accelkit.cacheagent.disk.ledger import Ledger, Uses, read_ledger, write_ledger
from accelkit.cacheagent.planning.world import WITHDRAWN, Disk, Stored
from accelkit.errors import CacheError, ConfigurationError
from accelkit.gkm import names
from accelkit.kernelcache.extraction import CompletionRecord
from accelkit.kernelcache.extraction.folder import CACHE, FOLDER_NAME, Place, lock_place
from accelkit.kernelcache.extraction.listing import list_extracted
from accelkit.kernelcache.extraction.reader_thread import run_to_completion
from accelkit.logs import ErrorReporter
from accelkit.model.object_meta import read_time

log = logging.getLogger(__name__)

_LEFTOVER: Final = re.compile(rf"\.(?P<folder>{FOLDER_NAME})\.(partial|displaced|lock)")
_LINK: Final = re.compile(r"[0-9a-f]{20}")
_TARGET: Final = re.compile(rf"\.\./(?P<folder>{FOLDER_NAME})/{CACHE}")


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
        self._unwritten = False
        self._errors = ErrorReporter(log)
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
            # Of an empty store there is nothing to know.
            self.ledger.lost &= bool(self.stored)
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
        self.ledger.note_satisfied(folder, policies, read_time(record.verified_at))
        self.stored[folder] = self._describe(folder, record)
        self.broken -= {folder}
        self.write_ledger()

    def remember_uses(self, uses: Uses) -> bool:
        """Take over who uses what, and write it down where that is new; returns whether it stands on the disk."""
        self._unwritten |= self.ledger.take_uses(uses)
        if self._unwritten:
            try:
                self.write_ledger()
            except OSError as exc:
                self._errors.report(str(exc), f"what pods were given cannot be written down, so no link moves: {exc}")
                return False
            self._errors.clear()
        return True

    def write_ledger(self) -> None:
        """Write down what has to be remembered.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        self.ledger.forget(self.stored)
        write_ledger(self.root, self.ledger)
        self._unwritten = False

    def measure_disk(self) -> Disk:
        """Return what the disk has free.

        Raises:
            OSError: it cannot be asked.
        """
        disk = os.statvfs(self.root)
        return Disk(disk.f_bavail * disk.f_frsize, self._max_bytes, self._min_free_bytes, disk.f_blocks * disk.f_frsize)

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
        place = self.find_place(folder)
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

    async def take_out(self, folder: str, opened: int, seconds: float) -> bool:
        """Delete a folder whose files are not what they were, and lead its links to nowhere until it is there again.

        Args:
            folder: of a cache.
            opened: a descriptor of it, by which another folder of that name is told apart, and stays.
            seconds: how long somebody else who is at it is waited for.

        Returns:
            Whether it was taken out.

        Raises:
            CacheError: somebody else is at it for longer.
            OSError: it cannot be moved out of the way.
        """
        place = self.find_place(folder)
        async with lock_place(place, seconds):
            if not place.folder.exists() or not os.path.samestat(os.fstat(opened), place.folder.stat()):
                return False
            await run_to_completion(place.clear_leftovers)
            for link in [link for link, target in self.links.items() if target == folder]:
                self.move_link(link, WITHDRAWN)
            place.folder.rename(place.displaced)
            self.stored.pop(folder, None)
            try:
                await run_to_completion(place.clear_leftovers)
            except OSError as exc:
                log.warning("%s cannot be deleted, and is invisible: %s", place.displaced, exc)
        return True

    async def _clear_leftovers(self) -> None:
        for path in list(self.root.iterdir()):
            if (found := _LEFTOVER.fullmatch(path.name)) is not None:
                place = self.find_place(found["folder"])
                if path == place.lock and place.folder.exists():
                    continue
                # Somebody who extracts by hand holds the lock, and clears what is his.
                try:
                    async with lock_place(place, 0.0):
                        await run_to_completion(place.clear_leftovers)
                except CacheError:
                    continue
                except OSError as exc:
                    # It is in nobody's way but its own.
                    log.warning("%s cannot be deleted: %s", path, exc)

    def find_place(self, folder: str) -> Place:
        """Return where a folder of the store is; its digest and mount path are left open."""
        return Place(folder, self.root / folder, "")

    def _describe(self, folder: str, record: CompletionRecord) -> Stored:
        satisfied = dict(self.ledger.satisfied.get(folder, {}))
        if record.policy_digest:
            satisfied[record.policy_digest] = read_time(record.verified_at)
        return Stored(record.files, record.size_bytes, record.labels, satisfied, record.mount_path)

    def _read_links(self) -> dict[str, str]:
        links = {}
        for path in self._claims.iterdir():
            if _LINK.fullmatch(path.name) and path.is_symlink():
                found = _TARGET.fullmatch(str(path.readlink()))
                links[path.name] = found["folder"] if found is not None else WITHDRAWN
        return links
