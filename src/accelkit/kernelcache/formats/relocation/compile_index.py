"""vLLM's list of what it compiled, `vllm_compile_cache.py`, which names files by absolute path.

It is the text of a Python dictionary, which vLLM reads as a literal. vLLM opens the paths as they stand and fails where
they lead nowhere, so a cache that was moved does not merely miss: the server does not start. The texts that are paths
are therefore replaced where they stand, and everything else is kept to the letter.
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
    """Return the list for a cache that workloads see elsewhere than where it was compiled.

    A path is that of the file in the cache with the longest equal end: `/build/torch_compile_cache/h/x` is
    `torch_compile_cache/h/x` where the cache holds that, and `h/x` only where it does not.

    Args:
        document: the file.
        holds: whether the cache has something under a path relative to its root.
        locate: where workloads see such a path; for an absolute path of a tree that they see where it was captured,
            that path; None for any other absolute one.

    Raises:
        CacheError: it is too big, not of the form that vLLM writes, or names something that the cache does not have.
    """
    changes = []
    for node in _list_paths(document):
        seen = _find_seen(str(node.value), holds, locate)
        if seen != node.value:
            changes.append((node, seen))
    lines = document.split(b"\n")
    # From the end, so that places before it stay what they were.
    for node, seen in sorted(changes, key=lambda change: (change[0].lineno, change[0].col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        after = lines[last][node.end_col_offset :]
        lines[first : last + 1] = [lines[first][: node.col_offset] + repr(seen).encode() + after]
    return b"\n".join(lines)


def _list_paths(document: bytes) -> Iterator[ast.Constant]:
    if len(document) > MAX_INDEX_BYTES:
        raise CacheError(f"{INDEX_NAME} of {len(document)} bytes is over the limit of {MAX_INDEX_BYTES}")
    try:
        text = document.decode()
        if any(letter in text for letter in "\r\f\0"):
            raise CacheError(f"{INDEX_NAME} is not of the form that vLLM writes: it has control characters")
        tree = ast.parse(text, mode="eval").body
        read = ast.literal_eval(tree)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as exc:
        raise CacheError(f"{INDEX_NAME} is not a literal as vLLM writes it: {type(exc).__name__}") from exc
    if not isinstance(tree, ast.Dict) or not isinstance(read, dict):
        raise CacheError(f"{INDEX_NAME} is not a dictionary as vLLM writes it")
    for value in tree.values:
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/"):
                yield node


def _find_seen(path: str, holds: Callable[[str], bool], locate: Callable[[str], str | None]) -> str:
    names = path[1:].split("/")
    plain = path.isprintable() and not {"", ".", ".."} & set(names)
    if not plain or len(path.encode(errors="surrogatepass")) > _MAX_PATH_BYTES:
        raise CacheError(f"{INDEX_NAME} names {path[:80]!r}, which is not a plain path")
    if (kept := locate(path)) is not None:
        return kept
    for start in range(len(names)):
        within = posixpath.join(*names[start:])
        if holds(within) and (seen := locate(within)) is not None:
            return seen
    raise CacheError(
        f"{INDEX_NAME} names {path[:200]}, which the cache does not have, so vLLM would fail to start with it",
        next_step="build the image from the whole cache root, and capture folders outside of it with it",
    )
