"""vLLM's list of compiled files, `vllm_compile_cache.py`, which contains absolute paths.

The file contains a Python dictionary, which vLLM parses as a literal. vLLM opens the paths unchanged. If a path does
not exist, for example because the cache was moved, the vLLM server does not start. Therefore, the paths are replaced,
and all other text is preserved.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator
from typing import Final

from accelkit.errors import CacheError

INDEX_NAME: Final = "vllm_compile_cache.py"
MAX_INDEX_BYTES: Final = 1024 * 1024
_MAX_PATH_BYTES: Final = 4096


def relocate_index(document: bytes, *, holds: Callable[[str], bool], locate: Callable[[str], str | None]) -> bytes:
    """Return the list with each path replaced by the path at which a workload mounts the file.

    A path is mapped to the file in the cache with the longest common suffix. For example,
    `/build/torch_compile_cache/h/x` is mapped to `torch_compile_cache/h/x` if this file exists, and otherwise to `h/x`.

    Args:
        document: the content of the list.
        holds: a function that returns whether the cache contains a path, which is relative to its root.
        locate: a function that returns the path of an entry in the workload, given its path relative to the root. For
            an absolute path in a tree that is mounted where it was captured, it returns the same path. For any other
            absolute path, it returns None.

    Raises:
        CacheError: the list is too large, does not have vLLM's format, or refers to a file that is missing in the
            cache.
    """
    changes = []
    for node in _list_paths(document):
        mounted = _find_mounted(str(node.value), holds, locate)
        if mounted != node.value:
            changes.append((node, mounted))
    lines = document.split(b"\n")
    # Apply the changes in reverse order, so that the positions of the remaining changes do not shift.
    for node, mounted in sorted(changes, key=lambda change: (change[0].lineno, change[0].col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        after = lines[last][node.end_col_offset :]
        lines[first : last + 1] = [lines[first][: node.col_offset] + repr(mounted).encode() + after]
    return b"\n".join(lines)


def _list_paths(document: bytes) -> Iterator[ast.Constant]:
    if len(document) > MAX_INDEX_BYTES:
        raise CacheError(f"{INDEX_NAME} of {len(document)} bytes exceeds the limit of {MAX_INDEX_BYTES}")
    try:
        text = document.decode()
        if any(letter in text for letter in "\r\f\0"):
            raise CacheError(f"{INDEX_NAME} does not have the format that vLLM writes: it has control characters")
        tree = ast.parse(text, mode="eval").body
        read = ast.literal_eval(tree)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as exc:
        raise CacheError(f"{INDEX_NAME} is not a Python literal: {type(exc).__name__}") from exc
    if not isinstance(tree, ast.Dict) or not isinstance(read, dict):
        raise CacheError(f"{INDEX_NAME} is not a dictionary")
    for value in tree.values:
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/"):
                yield node


def _find_mounted(path: str, holds: Callable[[str], bool], locate: Callable[[str], str | None]) -> str:
    names = path[1:].split("/")
    plain = path.isprintable() and not {"", ".", ".."} & set(names)
    if not plain or len(path.encode(errors="surrogatepass")) > _MAX_PATH_BYTES:
        raise CacheError(f"{INDEX_NAME} names {path[:80]!r}, which is not a plain path")
    if (kept := locate(path)) is not None:
        return kept
    for start in range(len(names)):
        within = posixpath.join(*names[start:])
        if holds(within) and (mounted := locate(within)) is not None:
            return mounted
    raise CacheError(
        f"{INDEX_NAME} names {path[:200]}, which the cache does not contain, so vLLM would fail to start",
        next_step="build the image from the whole cache root, and also capture the folders outside the root",
    )
