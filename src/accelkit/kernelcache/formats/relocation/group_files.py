"""Triton's group files, which name the files of one kernel by absolute path.

Triton looks each path up as it stands and takes the kernel for missing where they lead nowhere, so a cache that was
moved never hits. They are therefore rewritten where a cache is extracted, to the path at which the workload sees it.

They are packed as they were found, not made neutral. A relative path would be looked up from the workload's working
directory, so it would hit nowhere; and readers other than ours do not rewrite, but mount the cache at the path where it
was captured, which the files must then still say. Besides, Inductor's sources and kernels' metadata name that host's
paths too, and cannot be changed.
"""

from __future__ import annotations

import posixpath
from typing import Final

import msgspec

from accelkit.errors import CacheError

MAX_GROUP_FILE_BYTES: Final = 1024 * 1024
MAX_CHILDREN: Final = 4096
_MAX_NAME_BYTES: Final = 255


class _Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    # Triton 2 wrote the names only, and looked for them beside the group file.
    child_paths: dict[str, str] | list[str]


_decoder = msgspec.json.Decoder(_Group)


def is_group_file(name: str) -> bool:
    """Whether a file of this name (without folders) is a group file."""
    return name.startswith("__grp__") and name.endswith(".json")


def relocate(document: bytes, *, folder_in_mount: str) -> bytes:
    """Return a group file for files that lie in `folder_in_mount`, the absolute folder that the workload sees.

    The form of Triton 2, which holds names only, is right anywhere and comes back as it was.

    Raises:
        CacheError: it is too big, not of a form that Triton writes, or names something that is not plainly a file.
    """
    if len(document) > MAX_GROUP_FILE_BYTES:
        raise CacheError(f"a group file of {len(document)} bytes is over the limit of {MAX_GROUP_FILE_BYTES}")
    if not posixpath.isabs(folder_in_mount) or ".." in folder_in_mount.split("/"):
        raise CacheError(f"{folder_in_mount!r} is not an absolute path without '..'")
    try:
        children = _decoder.decode(document).child_paths
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise CacheError(f"a group file is not of a form that Triton writes: {exc}") from exc
    if len(children) > MAX_CHILDREN:
        raise CacheError(f"a group file names {len(children)} files, over the limit of {MAX_CHILDREN}")
    for name in children:
        _check_name(name)
    if isinstance(children, list):
        return document
    moved = {name: posixpath.join(folder_in_mount, _read_file_name(path)) for name, path in children.items()}
    return msgspec.json.encode({"child_paths": moved})


def _read_file_name(path: str) -> str:
    name = posixpath.basename(path)
    _check_name(name)
    return name


def _check_name(name: str) -> None:
    bad = name in {"", ".", ".."} or not name.isprintable() or "/" in name or "\\" in name
    if bad or len(name.encode(errors="surrogatepass")) > _MAX_NAME_BYTES:
        raise CacheError(f"a group file names {name[:80]!r}, which is not a plain file name")
