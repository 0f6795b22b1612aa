"""Triton's group files, which list the absolute paths of the files of one kernel.

Triton opens each path unchanged, and treats the kernel as missing if a path does not exist. In a moved cache, Triton
would therefore find no kernels, so extraction rewrites the paths for the mount path in the workload.

Images contain the files with their original absolute paths. Triton would resolve a relative path against the working
directory of the workload and would not find the files. Tools other than accelkit do not rewrite the files and mount the
cache at the path where it was captured, so the files must contain that path. Inductor's sources and the metadata of
kernels also contain paths of the build host, which cannot be changed.
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
    # Triton 2 wrote only file names, and expected the files next to the group file.
    child_paths: dict[str, str] | list[str]


_decoder = msgspec.json.Decoder(_Group)


def is_group_file(name: str) -> bool:
    """Return whether a file name, without folders, is the name of a group file."""
    return name.startswith("__grp__") and name.endswith(".json")


def relocate(document: bytes, *, folder_in_mount: str) -> bytes:
    """Return the group file with its paths changed to `folder_in_mount`, the absolute path of a folder in the workload.

    A group file in the format of Triton 2, which contains only file names, is valid at any path and is returned
    unchanged.

    Raises:
        CacheError: the file is too large, does not have Triton's format, or contains an invalid file name.
    """
    if len(document) > MAX_GROUP_FILE_BYTES:
        raise CacheError(f"a group file of {len(document)} bytes exceeds the limit of {MAX_GROUP_FILE_BYTES}")
    if not posixpath.isabs(folder_in_mount) or ".." in folder_in_mount.split("/"):
        raise CacheError(f"{folder_in_mount!r} is not an absolute path without '..'")
    try:
        children = _decoder.decode(document).child_paths
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise CacheError(f"a group file does not have a format that Triton writes: {exc}") from exc
    if len(children) > MAX_CHILDREN:
        raise CacheError(f"a group file names {len(children)} files; the limit is {MAX_CHILDREN}")
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
