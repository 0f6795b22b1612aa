"""The path at which a framework wrote a cache, derived from files that contain paths to other files.

The labels of an image specify this path as the mount path for workloads. An image volume works only at this path. MCV
always writes the same path to the label. accelkit writes the path that the files contain, if any.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator

import msgspec

from accelkit.kernelcache.formats.mounts import is_plain
from accelkit.kernelcache.formats.relocation.compile_index import INDEX_NAME
from accelkit.kernelcache.formats.relocation.group_files import is_group_file
from accelkit.kernelcache.formats.tree import Tree


class _Group(msgspec.Struct, frozen=True):
    child_paths: dict[str, str] | list[str] = []


_groups = msgspec.json.Decoder(_Group)


def find_captured_root(tree: Tree) -> str:
    """Return the common root of the absolute paths in the files of a cache.

    The result is empty if the files contain no paths, if the paths have different roots, or if a file cannot be read.
    The extraction reports the reason.
    """
    roots = set()
    for path in tree.paths:
        name = posixpath.basename(path)
        if is_group_file(name) or name == INDEX_NAME:
            roots |= {_find_root(tree, named, posixpath.dirname(path)) for named in _list_named(tree, path)}
            if len(roots) > 1:
                return ""
    root = roots.pop() if roots else ""
    # Readers of the label accept only absolute paths that consist of ordinary names.
    return root if is_plain(root[1:]) else ""


def _list_named(tree: Tree, path: str) -> Iterator[str]:
    content = tree.read_metadata(path) or b""
    try:
        if is_group_file(posixpath.basename(path)):
            children = _groups.decode(content).child_paths
            found = [*children.values()] if isinstance(children, dict) else []
        else:
            document = ast.parse(content.decode(), mode="eval")
            constants = (node.value for node in ast.walk(document) if isinstance(node, ast.Constant))
            found = [each for each in constants if isinstance(each, str)]
    except (msgspec.MsgspecError, ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return
    yield from (each for each in found if posixpath.isabs(each))


def _find_root(tree: Tree, named: str, folder: str) -> str:
    """Return the part of a path before the file's path within the cache; empty if the file is not in the cache."""
    if named.endswith(beside := f"/{folder}/{posixpath.basename(named)}"):
        return named.removesuffix(beside)
    parts = named[1:].split("/")
    return next(
        ("/" + "/".join(parts[:start]) for start in range(1, len(parts)) if "/".join(parts[start:]) in tree), ""
    )
