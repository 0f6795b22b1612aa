"""Namespace folders in the store, with links to the files that pods in each namespace may read.

The paths of these links (entries) are the paths of volumes. A user with write access to the store can change the
entries.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from accelkit.cacheagent.planning.entries import is_namespace
from accelkit.cacheagent.planning.world import Entry
from accelkit.gkm import names
from accelkit.kernelcache.extraction.folder import CACHE, FOLDER_NAME
from accelkit.logs import ErrorReporter, Facts

log = logging.getLogger(__name__)

LINK_NAME: Final = r"[0-9a-f]{20}"
_LINK: Final = re.compile(LINK_NAME)
_FOLDER: Final = re.compile(FOLDER_NAME)
_LINKS: Final = Path(names.build_link_path("")).parent.name
_UNFINISHED: Final = re.compile(rf"\.(?:{LINK_NAME}|{FOLDER_NAME})\.new")


class NamespaceEntries:
    """Entries of all namespaces.

    Args:
        root: folder of the store.
    """

    def __init__(self, root: Path) -> None:
        self._folder = Path(names.build_entry_path("", "", root))
        self._present: set[Entry] = set()
        # Links with the name of an entry, but with a different target.
        self._foreign: set[Entry] = set()
        self._errors = ErrorReporter(log)

    @property
    def present(self) -> frozenset[Entry]:
        """The existing entries."""
        return frozenset(self._present)

    def read(self) -> None:
        """Read the existing entries, and delete unfinished entries.

        Raises:
            OSError: the folder cannot be created or read.
        """
        _make_folder(self._folder)
        present: set[Entry] = set()
        foreign: set[Entry] = set()
        for folder in self._folder.iterdir():
            if not is_namespace(folder.name):
                continue
            if folder.is_symlink():
                # A link instead of a folder would allow the namespace to read the entries of another namespace.
                log.warning(Facts("unexpected link deleted", path=str(folder), target=str(folder.readlink())))
                folder.unlink()
            for path in folder.iterdir() if folder.is_dir() else ():
                if _UNFINISHED.fullmatch(path.name):
                    path.unlink()
                elif (target := _find_target(path.name)) and path.is_symlink():
                    same = str(path.readlink()) == target
                    (present if same else foreign).add((folder.name, path.name))
        self._present, self._foreign = present, foreign

    def bring(self, wanted: frozenset[Entry]) -> None:
        """Create missing entries and delete unwanted entries. Log failures and continue with the remaining entries."""
        problems: list[str] = []
        before = frozenset(self._present)
        for entry in sorted((before | self._foreign) - wanted):
            with _noted(problems, "delete", self._find_path(entry)):
                self._delete(entry)
        for entry in sorted(wanted - before):
            with _noted(problems, "create", self._find_path(entry)):
                self._create(entry)
        if self._present != before:
            created, deleted = len(self._present - before), len(before - self._present)
            log.info(Facts("namespace entries changed", created=created, deleted=deleted))
        if problems:
            text = "; ".join(problems)
            self._errors.report(text, f"cannot update namespace entries, so pods cannot mount some caches: {text}")
        else:
            self._errors.clear()

    def _create(self, entry: Entry) -> None:
        path, target = self._find_path(entry), _find_target(entry[1])
        assert target is not None  # noqa: S101 - plans have names of links and folders only
        _make_folder(path.parent)
        write_link(path, target)
        self._present.add(entry)
        self._foreign.discard(entry)

    def _delete(self, entry: Entry) -> None:
        path = self._find_path(entry)
        path.unlink(missing_ok=True)
        self._present.discard(entry)
        self._foreign.discard(entry)
        with contextlib.suppress(OSError):
            path.parent.rmdir()

    def _find_path(self, entry: Entry) -> Path:
        return self._folder.joinpath(*entry)


def write_link(path: Path, target: str) -> None:
    """Create or replace a link atomically.

    Raises:
        OSError: the link cannot be written, or a non-empty folder exists at the path.
    """
    # A container runtime may have created an empty folder at this path when it was missing. Pods would then start with
    # an empty folder.
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.rename(path)


def _make_folder(path: Path) -> None:
    """Create a folder. If a link or file exists at the path, delete it first."""
    if path.is_symlink() or path.is_file():
        log.warning(Facts("unexpected file deleted", path=str(path)))
        path.unlink()
    path.mkdir(parents=True, exist_ok=True)


def _find_target(name: str) -> str | None:
    """Return the target of an entry, relative to the folder of its namespace; None if the name is invalid."""
    if _LINK.fullmatch(name):
        return f"../../{_LINKS}/{name}"
    return f"../../{name}/{CACHE}" if _FOLDER.fullmatch(name) else None


@contextlib.contextmanager
def _noted(problems: list[str], verb: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        problems.append(f"cannot {verb} {path}: {exc.strerror or exc}")
