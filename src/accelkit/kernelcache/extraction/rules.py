"""Rules for the content of a layer: paths, sizes and the number of files."""

from __future__ import annotations

from dataclasses import dataclass

from accelkit.errors import CacheError

MAX_PATH_BYTES = 1024
_MAX_NAME_BYTES = 255
MAX_DEPTH = 32
# The prefix of deletion markers in the layers of union file systems, which extraction does not support.
_WHITEOUT = ".wh."


@dataclass(frozen=True)
class Limits:
    """Limits on the size of a cache; a larger image is rejected, even with a valid signature.

    Attributes:
        total_bytes: the total size of all files, after decompression.
        file_bytes: the size of one file.
        files: the number of files and folders.
    """

    total_bytes: int = 32 << 30
    file_bytes: int = 8 << 30
    files: int = 200_000

    @classmethod
    def of_gib(cls, gib: int) -> Limits:
        """Return the limits for a cache of `gib` GiB, which may be a single file."""
        return cls(total_bytes=gib << 30, file_bytes=gib << 30)


def normalize_path(name: str) -> str:
    """Return a name in an archive as a path relative to the archive's root, without a leading `./` or a trailing slash.

    Raises:
        CacheError: the path points outside the root, or is not a valid relative path.
    """
    path = name.rstrip("/")
    while path.startswith("./"):
        path = path[2:]
    if path in {"", "."}:
        return ""
    parts = path.split("/")
    if name.startswith("/") or ".." in parts or "" in parts or "." in parts:
        raise CacheError(f"the archive contains the path {_abbreviate(name)}, which points outside the archive")
    if not path.isprintable() or "\\" in path or len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        raise CacheError(f"the archive contains the path {_abbreviate(name)}, which is not a plain path")
    if len(parts) > MAX_DEPTH or any(len(each.encode()) > _MAX_NAME_BYTES for each in parts):
        raise CacheError(f"the archive contains the path {_abbreviate(name)}, which is too deep or too long")
    if any(each.startswith(_WHITEOUT) for each in parts):
        raise CacheError(
            f"the archive contains the whiteout {_abbreviate(name)}",
            next_step="build the image with one squashed layer",
        )
    return path


def _abbreviate(name: str) -> str:
    return ascii(name if len(name) <= _MAX_NAME_BYTES else name[:_MAX_NAME_BYTES] + "…")
