"""The layer of a cache image is the same bytes every time, and holds what the folder held."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from kernel_cache_trees import real_cache, triton_kernel, vllm_binary, write

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import Cache, read_cache, read_labels, write_labels, write_manifest
from accelkit.kernelcache.publishing.layer_writer import Compression, LayerInfo, write_image_config, write_layer


def _read(folder: Path) -> Cache:
    return read_cache(folder, cpu_architecture="amd64")


def _pack(folder: Path, compression: Compression = "none", **options) -> tuple[LayerInfo, bytes]:
    out = io.BytesIO()
    layer = write_layer(_read(folder), folder, out, compression=compression, **options)
    return layer, out.getvalue()


def _plain(compression: Compression, data: bytes) -> bytes:
    if compression == "gzip":
        return gzip.decompress(data)
    return zstandard.ZstdDecompressor().decompressobj().decompress(data) if compression == "zstd" else data


def _archive(data: bytes) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(data))


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
def test_layer_digest_and_size_match_written_bytes(tmp_path: Path, compression: Compression) -> None:
    layer, data = _pack(vllm_binary(tmp_path), compression)
    assert (layer.digest, layer.size_bytes) == (_sha256(data), len(data))
    assert layer.diff_id == _sha256(_plain(compression, data))


def test_archive_contains_every_file_and_manifest(tmp_path: Path) -> None:
    folder = triton_kernel(tmp_path, key="K")
    _, data = _pack(folder)
    with _archive(data) as archive:
        assert archive.getnames() == [
            "io.triton.cache",
            "io.triton.cache/K",
            "io.triton.cache/K/__grp__add_kernel.json",
            "io.triton.cache/K/add_kernel.json",
            "io.triton.cache/K/add_kernel.ttir",
            "io.triton.manifest",
            "io.triton.manifest/manifest.json",
        ]
        for path in _read(folder).files:
            member = archive.extractfile(f"io.triton.cache/{path}")
            assert member is not None
            assert member.read() == (folder / path).read_bytes()
        listing = archive.extractfile("io.triton.manifest/manifest.json")
        assert listing is not None
        assert listing.read() == write_manifest(_read(folder))


def test_archive_members_have_fixed_owner_mode_and_time(tmp_path: Path) -> None:
    folder = triton_kernel(tmp_path)
    write(folder / "set", b"x")
    (folder / "set").chmod(0o6755)
    _, data = _pack(folder)
    with _archive(data) as archive:
        members = archive.getmembers()
    assert {(member.uid, member.gid, member.uname, member.gname, member.mtime) for member in members} == {
        (0, 0, "", "", 0)
    }
    assert {(member.isdir(), member.mode) for member in members} == {(True, 0o755), (False, 0o644)}


@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
def test_layer_is_independent_of_file_times_modes_and_order(tmp_path: Path, compression: Compression) -> None:
    first = vllm_binary(triton_kernel(tmp_path / "first"))
    second = tmp_path / "second"
    for number, path in enumerate(reversed(_read(first).files)):
        write(second / path, (first / path).read_bytes())
        (second / path).chmod(0o700)
        os.utime(second / path, (number, number * 1000))
    assert _pack(first, compression) == _pack(second, compression)


def test_source_date_epoch_sets_time_of_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    _, data = _pack(triton_kernel(tmp_path))
    with _archive(data) as archive:
        assert {member.mtime for member in archive} == {1700000000}


def test_invalid_source_date_epoch_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(CacheError, match="SOURCE_DATE_EPOCH"):
        _pack(triton_kernel(tmp_path))


def test_gzip_header_has_no_name_or_time(tmp_path: Path) -> None:
    _, data = _pack(triton_kernel(tmp_path), "gzip")
    flags, seconds = data[3], data[4:8]
    assert (flags, seconds) == (0, bytes(4))


def test_long_and_non_ascii_names_are_preserved(tmp_path: Path) -> None:
    folder = triton_kernel(tmp_path)
    path = "/".join(["d" * 120, "größe" * 20, "e" * 120, "kernel.cubin"])
    write(folder / path, b"x")
    _, data = _pack(folder)
    with _archive(data) as archive:
        assert f"io.triton.cache/{path}" in archive.getnames()


@pytest.mark.parametrize(
    ("media", "compression", "media_type"),
    [
        ("oci", "gzip", "application/vnd.oci.image.layer.v1.tar+gzip"),
        ("oci", "zstd", "application/vnd.oci.image.layer.v1.tar+zstd"),
        ("oci", "none", "application/vnd.oci.image.layer.v1.tar"),
        ("docker", "gzip", "application/vnd.docker.image.rootfs.diff.tar.gzip"),
        ("docker", "none", "application/vnd.docker.image.rootfs.diff.tar"),
    ],
)
def test_media_type_matches_family_and_compression(tmp_path: Path, media, compression, media_type: str) -> None:
    layer, _ = _pack(triton_kernel(tmp_path), compression, media=media)
    assert layer.media_type == media_type


def test_zstd_is_rejected_for_docker_media_types(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="no docker media type"):
        _pack(triton_kernel(tmp_path), "zstd", media="docker")


class _Meddler(io.BytesIO):
    """A sink in which something happens once so many bytes have come."""

    def __init__(self, after_bytes: int, deed: Callable[[], object]) -> None:
        super().__init__()
        self._after_bytes = after_bytes
        self._deed = deed

    def write(self, data, /) -> int:
        written = super().write(data)
        if 0 < self._after_bytes <= self.tell():
            self._after_bytes = 0
            self._deed()
        return written


@pytest.mark.parametrize("length", [100, 4 * 1024 * 1024])
def test_file_size_change_during_packing_is_an_error(tmp_path: Path, length: int) -> None:
    folder = triton_kernel(tmp_path)
    big = folder / "A.cubin"
    write(big, bytes(2 * 1024 * 1024))
    cache = _read(folder)
    meddler = _Meddler(600 * 1024, lambda: os.truncate(big, length))
    with pytest.raises(CacheError, match=r"the size of .*A\.cubin changed"):
        write_layer(cache, folder, meddler, compression="none")


def test_file_size_change_after_reading_cache_is_an_error(tmp_path: Path) -> None:
    folder = triton_kernel(tmp_path)
    write(folder / "A.cubin", b"1")
    cache = _read(folder)
    write(folder / "A.cubin", b"12")
    with pytest.raises(CacheError, match="bytes, but had"):
        write_layer(cache, folder, io.BytesIO(), compression="none")


def test_file_replaced_by_link_is_not_followed(tmp_path: Path) -> None:
    folder = triton_kernel(tmp_path)
    write(folder / "A.cubin", b"1")
    cache = _read(folder)
    (folder / "A.cubin").unlink()
    (folder / "A.cubin").symlink_to("/etc/passwd")
    with pytest.raises(CacheError, match=r"cannot read the file .*A\.cubin of the cache"):
        write_layer(cache, folder, io.BytesIO(), compression="none")


class _Nowhere(io.RawIOBase):
    def write(self, data, /) -> int:
        return len(data)


def test_memory_use_does_not_grow_with_cache_size(tmp_path: Path) -> None:
    folder = triton_kernel(tmp_path)
    write(folder / "A.cubin", b"")
    os.truncate(folder / "A.cubin", 64 * 1024 * 1024)
    cache = _read(folder)
    tracemalloc.start()
    try:
        write_layer(cache, folder, _Nowhere(), compression="none")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * 1024 * 1024


def test_image_configuration_contains_platform_rootfs_and_labels(tmp_path: Path) -> None:
    folder = triton_kernel(tmp_path)
    layer, _ = _pack(folder)
    written = write_labels(_read(folder), title="my-cache")
    document = write_image_config(layer, written, architecture="arm64")
    config = json.loads(document)
    assert (config["architecture"], config["os"], config["created"]) == ("arm64", "linux", "1970-01-01T00:00:00Z")
    assert config["rootfs"] == {"type": "layers", "diff_ids": [layer.diff_id]}
    assert read_labels(config["config"]["Labels"]) == read_labels(written)
    assert document == write_image_config(layer, dict(reversed(written.items())), architecture="arm64")


@pytest.mark.parametrize("name", ["vector-add-cache", "vllm-cache"])
def test_real_caches_are_packed_byte_for_byte(name: str) -> None:
    folder = real_cache(name)
    _, data = _pack(folder, "gzip")
    cache = _read(folder)
    with _archive(gzip.decompress(data)) as archive:
        members = {
            member.name.removeprefix(f"io.{cache.format}.cache/"): archive.extractfile(member)
            for member in archive
            if member.isfile() and not member.name.endswith("manifest.json")
        }
        assert members.keys() == set(cache.files)
        for path, member in members.items():
            assert member is not None
            assert member.read() == (folder / path).read_bytes()
