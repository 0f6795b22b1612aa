"""Rewrites the files of a cache that name others by path, for a workload that sees the cache somewhere else."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from accelkit.kernelcache.formats.relocation.compile_index import INDEX_NAME, MAX_INDEX_BYTES, relocate_index
from accelkit.kernelcache.formats.relocation.group_files import MAX_GROUP_FILE_BYTES, is_group_file, relocate

# One byte more than the largest that is rewritten, so that what is over it shows.
MOST_READ: Final = max(MAX_GROUP_FILE_BYTES, MAX_INDEX_BYTES) + 1


@dataclass(frozen=True, slots=True)
class MovedTree:
    """Where a workload sees a cache.

    Attributes:
        mount_path: of its root.
        trees: paths of those of its folders that are seen somewhere else than below the root, by folder.
    """

    mount_path: str
    trees: Mapping[str, str] = field(default_factory=dict)

    def concerns(self, path: str) -> bool:
        """Return whether a file of the cache names others."""
        name = posixpath.basename(path)
        return is_group_file(name) or name == INDEX_NAME

    def rewrite(self, path: str, document: bytes, holds: Callable[[str], bool]) -> bytes:
        """Return a file that names others, with their new paths.

        Args:
            path: of the file, relative to the root.
            document: what it holds.
            holds: whether the cache has something under a path relative to its root.

        Raises:
            CacheError: it is not of a form that its framework writes, or names what the cache does not have.
        """
        if is_group_file(posixpath.basename(path)):
            return relocate(document, folder_in_mount=self.find_path(posixpath.dirname(path)))
        return relocate_index(document, holds=holds, locate=lambda named: self._locate(named, holds))

    def find_path(self, within: str) -> str:
        """Return where the workload sees a path relative to the root; empty for the root itself."""
        fitting = [each for each in self.trees if within == each or within.startswith(f"{each}/")]
        tree = max(fitting, key=len, default="")
        start = self.trees[tree] if tree else self.mount_path
        return posixpath.normpath(posixpath.join(start, within.removeprefix(tree).lstrip("/")))

    def _locate(self, path: str, holds: Callable[[str], bool]) -> str | None:
        if not path.startswith("/"):
            return self.find_path(path)
        # Trees that are seen where they were captured are named so already.
        return next((path for tree, seen in self.trees.items() if _lies_in(path, tree, seen, holds)), None)


def _lies_in(path: str, tree: str, seen: str, holds: Callable[[str], bool]) -> bool:
    return path.startswith(f"{seen}/") and holds(f"{tree}{path.removeprefix(seen)}")
