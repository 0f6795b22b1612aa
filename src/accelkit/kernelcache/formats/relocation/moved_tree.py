"""Conversion of paths in cache files, for workloads that mount the cache at a different path."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from accelkit.kernelcache.formats.relocation.compile_index import INDEX_NAME, MAX_INDEX_BYTES, relocate_index
from accelkit.kernelcache.formats.relocation.group_files import MAX_GROUP_FILE_BYTES, is_group_file, relocate

# One byte more than the maximum size of a rewritten file, so that larger files are detected.
MOST_READ: Final = max(MAX_GROUP_FILE_BYTES, MAX_INDEX_BYTES) + 1


@dataclass(frozen=True, slots=True)
class MovedTree:
    """The paths at which a workload mounts a cache.

    Attributes:
        mount_path: the path of the cache root.
        trees: the mount paths of folders that are not mounted below the root, keyed by folder.
    """

    mount_path: str
    trees: Mapping[str, str] = field(default_factory=dict)

    def concerns(self, path: str) -> bool:
        """Return whether a file in the cache may contain paths to other files."""
        name = posixpath.basename(path)
        return is_group_file(name) or name == INDEX_NAME

    def rewrite(self, path: str, document: bytes, holds: Callable[[str], bool]) -> bytes:
        """Return the content of a file in which the paths to other files are replaced with the new paths.

        Args:
            path: the path of the file, relative to the root.
            document: the content of the file.
            holds: a function that returns whether the cache contains a path, which is relative to its root.

        Raises:
            CacheError: the file does not have the format of its framework, or refers to a file that is missing in the
                cache.
        """
        if is_group_file(posixpath.basename(path)):
            return relocate(document, folder_in_mount=self.find_path(posixpath.dirname(path)))
        return relocate_index(document, holds=holds, locate=lambda named: self._locate(named, holds))

    def find_path(self, within: str) -> str:
        """Return the path of an entry in the workload, given its path relative to the root (empty for the root)."""
        fitting = [each for each in self.trees if within == each or within.startswith(f"{each}/")]
        tree = max(fitting, key=len, default="")
        start = self.trees[tree] if tree else self.mount_path
        return posixpath.normpath(posixpath.join(start, within.removeprefix(tree).lstrip("/")))

    def _locate(self, path: str, holds: Callable[[str], bool]) -> str | None:
        if not path.startswith("/"):
            return self.find_path(path)
        # Paths in trees that are mounted where they were captured are already correct.
        return next((path for tree, mount in self.trees.items() if _is_within(path, tree, mount, holds)), None)


def _is_within(path: str, tree: str, mount: str, holds: Callable[[str], bool]) -> bool:
    return path.startswith(f"{mount}/") and holds(f"{tree}{path.removeprefix(mount)}")
