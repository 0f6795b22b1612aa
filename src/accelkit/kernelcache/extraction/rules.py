"""Rules for the content of a layer: paths, sizes, how many files."""

from __future__ import annotations

from dataclasses import dataclass

from accelkit.errors import CacheError

MAX_PATH_BYTES = 1024
_MAX_NAME_BYTES = 255
MAX_DEPTH = 32
# Metadata of the layers that union file systems add; we extract no such thing.
_WHITEOUT = ".wh."


@dataclass(frozen=True)
class Limits:
    """How large a cache may be. An image beyond it is refused, however well it is signed.

    Attributes:
        total_bytes: of all files together, after decompression.
        file_bytes: of one file.
        files: how many files and folders.
    """

    total_bytes: int = 32 << 30
    file_bytes: int = 8 << 30
    files: int = 200_000

    @classmethod
    def of_gib(cls, gib: int) -> Limits:
        """Limits on a cache of so many GiB, which may be a single file."""
        return cls(total_bytes=gib << 30, file_bytes=gib << 30)


def normalize_path(name: str) -> str:
    """Return an archive's name as a path relative to the archive's root, without a leading `./` or a trailing slash.

    Raises:
        CacheError: it leads out, or is not a plain path.
    """
    path = name.rstrip("/")
    while path.startswith("./"):
        path = path[2:]
    if path in {"", "."}:
        return ""
    parts = path.split("/")
    if name.startswith("/") or ".." in parts or "" in parts or "." in parts:
        raise CacheError(f"the archive has the path {_abbreviate(name)}, which leads elsewhere")
    if not path.isprintable() or "\\" in path or len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        raise CacheError(f"the archive has the path {_abbreviate(name)}, which is no plain path")
    if len(parts) > MAX_DEPTH or any(len(each.encode()) > _MAX_NAME_BYTES for each in parts):
        raise CacheError(f"the archive has the path {_abbreviate(name)}, which is too deep or too long")
    if any(each.startswith(_WHITEOUT) for each in parts):
        raise CacheError(
            f"the archive has the whiteout {_abbreviate(name)}", next_step="build the image with one squashed layer"
        )
    return path


def _abbreviate(name: str) -> str:
    return ascii(name if len(name) <= _MAX_NAME_BYTES else name[:_MAX_NAME_BYTES] + "…")
