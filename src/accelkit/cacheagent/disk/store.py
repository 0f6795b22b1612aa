"""Store of extracted caches on the node, with links that pods use to read them.

The store contains these entries:

    ROOT/sha256-<hex>…/           extracted caches, as created by `accelkit cache extract`
    ROOT/claims/<20 digits>       link to the `cache` folder that new pods of a cache use
    ROOT/namespaces/<namespace>/  links to links in `claims`, and to `cache` folders that pods in the namespace may read
    ROOT/.agent.json              ledger
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Final

from accelkit.cacheagent.disk.agent_state import AgentState, Uses, read_ledger, write_ledger
from accelkit.cacheagent.disk.entries import LINK_NAME, NamespaceEntries, write_link
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
_LINK: Final = re.compile(LINK_NAME)
_TARGET: Final = re.compile(rf"\.\./(?P<folder>{FOLDER_NAME})/{CACHE}")


class Store:
    """Cache store on one node. Only the agent writes to it.

    Args:
        root: folder of the store, which is created if it does not exist.
        max_bytes: maximum total size of all caches; None if it is limited only by the disk.
        min_free_bytes: disk space that must remain free.
    """

    def __init__(self, root: Path, *, max_bytes: int | None = None, min_free_bytes: int = 0) -> None:
        self.root = root.absolute()
        self._claims = Path(names.build_link_path("", self.root)).parent
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self.ledger = AgentState()
        self._unwritten = False
        self._errors = ErrorReporter(log)
        self.stored: dict[str, Stored] = {}
        self.broken: frozenset[str] = frozenset()
        self.links: dict[str, str] = {}
        self.entries = NamespaceEntries(self.root)

    async def open(self) -> None:
        """Create the folders of the store, delete files from interrupted extractions, and read the content.

        Raises:
            ConfigurationError: the folder cannot be used.
        """
        try:
            self._claims.mkdir(parents=True, exist_ok=True)
            self.ledger = read_ledger(self.root)
            await self._clear_leftovers()
            await self.refresh()
            # If the store is empty, no records of uses were lost.
            self.ledger.lost &= bool(self.stored)
        except OSError as exc:
            raise ConfigurationError(
                f"cannot use the folder of kernel caches {self.root}: {exc.strerror or exc}",
                next_step="make the host folder writable for this user, or set another folder with --folder",
            ) from exc

    async def refresh(self) -> None:
        """Read the content of the store again.

        Raises:
            OSError: the folder cannot be read.
        """
        listing = await run_to_completion(lambda: list_extracted(self.root))
        found = {each.place.folder.name: each.record for each in listing.caches}
        self.stored = {folder: self._describe(folder, record) for folder, record in found.items()}
        self.broken = frozenset(path.name for path in listing.unusable)
        self.links = self._read_links()
        await run_to_completion(self.entries.read)

    def take(self, folder: str, record: CompletionRecord, policies: str) -> None:
        """Add a cache that was extracted or verified, and record the policies that it satisfies.

        Raises:
            OSError: the ledger cannot be written.
        """
        self.ledger.note_satisfied(folder, policies, read_time(record.verified_at))
        self.stored[folder] = self._describe(folder, record)
        self.broken -= {folder}
        self.write_ledger()

    def remember_uses(self, uses: Uses) -> bool:
        """Replace the recorded uses, and write the ledger if they changed; return whether the disk contains them."""
        self._unwritten |= self.ledger.take_uses(uses)
        if self._unwritten:
            try:
                self.write_ledger()
            except OSError as exc:
                self._errors.report(str(exc), f"cannot write the uses of folders, so no link is moved: {exc}")
                return False
            self._errors.clear()
        return True

    def write_ledger(self) -> None:
        """Write the ledger to the disk.

        Raises:
            OSError: the disk is full or not writable.
        """
        self.ledger.discard(self.stored)
        write_ledger(self.root, self.ledger)
        self._unwritten = False

    def measure_disk(self) -> Disk:
        """Return the free space on the disk and the limits of the store.

        Raises:
            OSError: the disk cannot be read.
        """
        disk = os.statvfs(self.root)
        return Disk(disk.f_bavail * disk.f_frsize, self._max_bytes, self._min_free_bytes, disk.f_blocks * disk.f_frsize)

    def move_link(self, link: str, target: str | None) -> None:
        """Atomically set the target of a link to a folder or to WITHDRAWN, or delete the link if the target is None.

        Raises:
            OSError: the link cannot be written, or a non-empty folder exists at the path.
        """
        path = self._claims / link
        if target is None:
            path.unlink(missing_ok=True)
            self.links.pop(link, None)
            return
        write_link(path, WITHDRAWN if target == WITHDRAWN else f"../{target}/{CACHE}")
        self.links[link] = target

    async def collect(self, folder: str) -> bool:
        """Delete an unused folder; return False if another process has locked it.

        Raises:
            OSError: the folder cannot be deleted. Pods cannot read the remaining files.
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
        """Delete a folder with changed files, and set its links to WITHDRAWN until the cache is extracted again.

        Args:
            folder: name of the folder.
            opened: descriptor of the folder. A newer folder with the same name is not deleted.
            seconds: maximum time to wait for the lock of the folder, in seconds.

        Returns:
            Whether the folder was deleted.

        Raises:
            CacheError: another process did not release the lock within `seconds`.
            OSError: the folder cannot be renamed.
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
                log.warning("displaced folder not deleted: path=%s error=%s", place.displaced, exc)
        return True

    async def _clear_leftovers(self) -> None:
        for path in list(self.root.iterdir()):
            if (found := _LEFTOVER.fullmatch(path.name)) is not None:
                place = self.find_place(found["folder"])
                if path == place.lock and place.folder.exists():
                    continue
                # If an extraction from the command line has locked the folder, it deletes its own remains.
                try:
                    async with lock_place(place, 0.0):
                        await run_to_completion(place.clear_leftovers)
                except CacheError:
                    continue
                except OSError as exc:
                    # Remaining files only use disk space.
                    log.warning("leftover not deleted: path=%s error=%s", path, exc)

    def find_place(self, folder: str) -> Place:
        """Return the place of a folder in the store. Its digest and mount path are not set."""
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
