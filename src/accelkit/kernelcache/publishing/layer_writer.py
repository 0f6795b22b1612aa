"""Writer for the layer and the configuration of a cache image.

The same files always result in the same bytes, regardless of their owners and times: names are sorted, and owner, mode
and time are fixed. The layer is written as a stream and is never completely in memory.

In trees that ninja built, modification times are preserved, rounded to whole seconds. Otherwise, ninja would rebuild
files that are older than their sources or newer than the times in its log. The log is part of the tree and contains
times, so the bytes of these trees differ after each compilation.

The gzip format is written with zlib. ISA-L was 12 times as fast in one measurement (500 MB/s instead of 40 MB/s on one
core), but it does not guarantee the same output on every CPU. If speed is more important, use zstd, which MCV does not
support.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from tarfile import DIRTYPE, PAX_FORMAT, TarInfo
from typing import BinaryIO, Final, Literal, Protocol

import msgspec
import zstandard

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import Cache, write_manifest

Compression = Literal["gzip", "zstd", "none"]
MediaFamily = Literal["oci", "docker"]

CHUNK_BYTES: Final = 256 * 1024
GZIP_LEVEL: Final = 6
ZSTD_LEVEL: Final = 3
CREATED: Final = "1970-01-01T00:00:00Z"
_NINJA_LOG: Final = ".ninja_log"
_BLOCK: Final = 512
_END: Final = bytes(2 * _BLOCK)
_GZIP: Final = 16 + zlib.MAX_WBITS
_RETRY: Final = "try again when no process writes to the cache"
_MEDIA_TYPES: Final[Mapping[tuple[MediaFamily, Compression], str]] = {
    ("oci", "gzip"): "application/vnd.oci.image.layer.v1.tar+gzip",
    ("oci", "zstd"): "application/vnd.oci.image.layer.v1.tar+zstd",
    ("oci", "none"): "application/vnd.oci.image.layer.v1.tar",
    ("docker", "gzip"): "application/vnd.docker.image.rootfs.diff.tar.gzip",
    ("docker", "none"): "application/vnd.docker.image.rootfs.diff.tar",
}


class LayerInfo(msgspec.Struct, frozen=True):
    """A written layer.

    Attributes:
        media_type: the media type in the image manifest.
        digest: `sha256:` and the hash of the compressed archive.
        size_bytes: the size of the compressed archive.
        diff_id: `sha256:` and the hash of the uncompressed archive.
    """

    media_type: str
    digest: str
    size_bytes: int
    diff_id: str


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def write_layer(
    cache: Cache,
    folder: Path,
    out: BinaryIO,
    *,
    compression: Compression = "gzip",
    media: MediaFamily = "oci",
    modified: int | None = None,
) -> LayerInfo:
    """Write a cache's files and its manifest as one compressed archive.

    Args:
        cache: the result of `read_cache` for the folder.
        folder: the folder with the files.
        out: the file to which the layer is written.
        compression: the compression format of the layer; MCV supports only gzip.
        media: the family of media types: OCI or Docker.
        modified: the modification time of all files outside of ninja's trees, in seconds since 1970. If it is None,
            SOURCE_DATE_EPOCH from the environment is used, or 0 if this variable is not set.

    Raises:
        CacheError: a file cannot be read, a file changed after the cache was read, or there is no media type for this
            compression format.
    """
    media_type = _MEDIA_TYPES.get((media, compression))
    if media_type is None:
        raise CacheError(f"there is no {media} media type for {compression} layers", next_step="use oci or gzip")
    compressor, plain, packed, size = _open_compressor(compression), hashlib.sha256(), hashlib.sha256(), 0
    for data in _write_archive(cache, folder, _read_source_date_epoch() if modified is None else modified):
        plain.update(data)
        compressed = compressor.compress(data) if compressor else data
        packed.update(compressed)
        size += out.write(compressed)
    if compressor:
        rest = compressor.flush()
        packed.update(rest)
        size += out.write(rest)
    return LayerInfo(media_type, f"sha256:{packed.hexdigest()}", size, f"sha256:{plain.hexdigest()}")


def write_image_config(
    layer: LayerInfo, labels: Mapping[str, str], *, architecture: str, created: str = CREATED
) -> bytes:
    """Return the configuration of an image that contains this layer, as JSON with sorted keys.

    Args:
        layer: the result of `write_layer`.
        labels: the result of `formats.write_labels` for the cache.
        architecture: the CPU architecture of the host that built the cache, with its OCI name.
        created: the creation time, RFC 3339. By default, it is a fixed time, so that the same cache results in the same
            image.
    """
    config = {
        "architecture": architecture,
        "config": {"Labels": dict(labels)},
        "created": created,
        "history": [{"created": created, "created_by": "accelkit cache build"}],
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
    }
    return msgspec.json.encode(config, order="sorted")


def _read_source_date_epoch() -> int:
    text = os.environ.get("SOURCE_DATE_EPOCH", "0")
    if not text.isascii() or not text.isdigit():
        raise CacheError(f"SOURCE_DATE_EPOCH is {text!r}, which is not a number of seconds")
    return int(text)


def _open_compressor(compression: Compression) -> _Compressor | None:
    if compression == "gzip":
        return zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP)
    if compression == "zstd":
        return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compressobj()
    return None


def _write_archive(cache: Cache, folder: Path, modified: int) -> Iterator[bytes]:
    top, listing = f"io.{cache.format}.cache", f"io.{cache.format}.manifest"
    written, total = set[str](), 0
    built = {_find_tree(path) for path in cache.files if path.rsplit("/", 1)[-1] == _NINJA_LOG}
    yield _write_header(top, modified)
    for path in cache.files:
        for parent in _list_parents(path):
            if parent not in written:
                written.add(parent)
                yield _write_header(f"{top}/{parent}", modified)
        time = None if _find_tree(path) in built else modified
        size = yield from _write_file(folder / path, f"{top}/{path}", time)
        total += size
    if total != cache.size_bytes:
        raise CacheError(
            f"{folder} has {total} bytes, but had {cache.size_bytes} bytes when it was read", next_step=_RETRY
        )
    document = write_manifest(cache)
    yield _write_header(listing, modified)
    yield _write_header(f"{listing}/manifest.json", modified, size=len(document))
    yield document + _pad(len(document))
    yield _END


def _find_tree(path: str) -> str:
    """Return the first folder in a path; empty for a file in the root."""
    return path.partition("/")[0] if "/" in path else ""


def _list_parents(path: str) -> Iterator[str]:
    """Yield the parent folders of a path, beginning with the outermost folder."""
    return (path[:index] for index, letter in enumerate(path) if letter == "/")


def _write_file(path: Path, name: str, modified: int | None) -> Generator[bytes, None, int]:
    """Yield the header and content of a file, and return its size. If `modified` is None, preserve the file's time."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            status = os.fstat(file.fileno())
            size = status.st_size
            own = max(0, status.st_mtime_ns // 1_000_000_000)
            yield _write_header(name, own if modified is None else modified, size=size)
            left = size
            while left and (data := file.read(min(CHUNK_BYTES, left))):
                left -= len(data)
                yield data
            if left or file.read(1):
                raise CacheError(f"the size of {path} changed while the file was being packed", next_step=_RETRY)
    except OSError as exc:
        raise CacheError(f"cannot read the file {path} of the cache: {exc.strerror}") from exc
    yield _pad(size)
    return size


def _write_header(name: str, modified: int, *, size: int | None = None) -> bytes:
    """Return the header of a file with `size` bytes, or of a folder if `size` is None."""
    info = TarInfo(name)
    info.mtime = modified
    if size is None:
        info.type, info.mode = DIRTYPE, 0o755
    else:
        info.size, info.mode = size, 0o644
    return info.tobuf(PAX_FORMAT, "utf-8", "strict")


def _pad(size: int) -> bytes:
    return bytes(-size % _BLOCK)
