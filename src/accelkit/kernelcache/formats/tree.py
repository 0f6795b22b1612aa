"""List of the files in a cache folder. Only regular files and folders are accepted.

A symbolic link could cause an unrelated file on the build host to be copied to an image. It could also be broken on the
node that uses the image. Devices, pipes and sockets have no content to copy.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from accelkit.errors import CacheError

MAX_FILES: Final = 1_000_000
MAX_DEPTH: Final = 64
MAX_BYTES: Final = 2**40
# The metadata of a kernel has a few KiB, and the environment that vLLM records has about 10 KiB.
MAX_METADATA_BYTES: Final = 1024 * 1024
_FIRST_PRINTABLE: Final = 0x20


class Tree(msgspec.Struct, frozen=True):
    """A folder with the sorted relative paths of its files, and the size of each file in bytes."""

    folder: Path
    paths: tuple[str, ...]
    sizes: dict[str, int]

    def __contains__(self, path: str) -> bool:
        return path in self.sizes

    def list_names(self, folder: str) -> tuple[str, ...]:
        """Return the sorted names of the entries directly in `folder`, a relative path (empty for the root)."""
        start = len(folder) + 1 if folder else 0
        return tuple(sorted({path[start:].split("/", 1)[0] for path in self.list_files(folder)}))

    def list_files(self, folder: str) -> tuple[str, ...]:
        """Return the sorted files at any depth in `folder`."""
        if not folder:
            return self.paths
        # "0" follows "/" in ASCII, so all paths in the folder are sorted between `folder/` and `folder0`.
        return self.paths[bisect_left(self.paths, f"{folder}/") : bisect_left(self.paths, f"{folder}0")]

    def read_metadata(self, path: str) -> bytes | None:
        """Return the content of a metadata file; None if the file is too large.

        Raises:
            CacheError: the file cannot be read.
        """
        if self.sizes[path] > MAX_METADATA_BYTES:
            return None
        try:
            return (self.folder / path).read_bytes()
        except OSError as exc:
            raise CacheError(f"cannot read {self.folder / path} of the cache: {exc.strerror}") from exc


def list_tree(folder: Path) -> Tree:
    """Return the files of a folder, sorted by path.

    Raises:
        CacheError: the path is not a folder or cannot be read, an entry is neither a file nor a folder, a name is not
            printable UTF-8, or a limit is exceeded.
    """
    if not folder.is_dir():
        raise CacheError(f"{folder} is not a folder", next_step="specify the cache folder of the framework")
    sizes = dict(_walk(folder, PurePosixPath()))
    if (total := sum(sizes.values())) > MAX_BYTES:
        raise CacheError(f"the cache in {folder} has {total} bytes; the limit is {MAX_BYTES}")
    return Tree(folder, tuple(sorted(sizes)), sizes)


def _walk(root: Path, top: PurePosixPath) -> Iterator[tuple[str, int]]:
    waiting, count = [top], 0
    while waiting:
        relative = waiting.pop()
        if len(relative.parts) > MAX_DEPTH:
            raise CacheError(f"{root / relative} is nested deeper than {MAX_DEPTH} folders")
        for entry in _list_entries(root / relative):
            status = entry.stat(follow_symlinks=False)
            path = relative / _check_name(entry)
            if stat.S_ISDIR(status.st_mode):
                waiting.append(path)
            elif stat.S_ISREG(status.st_mode):
                count += 1
                yield str(path), status.st_size
            else:
                kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "neither a file nor a folder"
                raise CacheError(
                    f"{entry.path} is {kind}", next_step="remove it: a cache may contain only files and folders"
                )
            if count > MAX_FILES:
                raise CacheError(f"the cache in {root} has more than {MAX_FILES} files")


def _list_entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as exc:
        raise CacheError(f"cannot read {folder} of the cache: {exc.strerror}") from exc


def _check_name(entry: os.DirEntry[str]) -> str:
    printable = all(ord(letter) >= _FIRST_PRINTABLE for letter in entry.name)
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        printable = False
    if not printable:
        raise CacheError(f"{entry.path!r} has a name that is not printable UTF-8")
    return entry.name
