"""No archive leads out of its folder, fills a disk or leaves anything behind that others could take for a cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from hand_made_archives import (
    END,
    GZIP,
    PLAIN,
    ZSTD,
    archive,
    extended,
    file,
    folder,
    header,
    link,
    long_name,
    packed,
    record,
)
from registries.hostile import HostileRegistry
from served_images import files_of, refused

TOP = "io.triton.cache"
GOOD = file(f"{TOP}/K/good.json", b"{}")


def old_sparse() -> bytes:
    sparse = bytearray(header(f"{TOP}/K/sparse".encode(), 0, kind=b"S", gnu=True))
    sparse[386:398] = b"%011o\0" % 0
    sparse[483:495] = b"%011o\0" % (1 << 40)
    sparse[148:156] = b" " * 8
    sparse[148:156] = b"%06o\0 " % sum(sparse)
    return bytes(sparse)


def named(name: str | bytes) -> bytes:
    """A file whose name only an extended header can say."""
    raw = name.encode() if isinstance(name, str) else name
    return extended(record(b"path", raw)) + file("other")


ATTACKS = {
    "parent": (file("../x"), "points outside the archive"),
    "parent below the cache": (file(f"{TOP}/../../x"), "points outside the archive"),
    "parent at the end": (folder(f"{TOP}/.."), "points outside the archive"),
    "absolute": (file("/tmp/accelkit-attack"), "points outside the archive"),
    "absolute folder": (folder("/tmp"), "points outside the archive"),
    "dot within": (file(f"{TOP}/./x"), "points outside the archive"),
    "empty part": (file(f"{TOP}//x"), "points outside the archive"),
    "link then file through it": (link(f"{TOP}/K", "/tmp") + file(f"{TOP}/K/x"), "a symbolic link"),
    "link alone": (link(f"{TOP}/x", "K/good.json"), "a symbolic link"),
    "link outside of the cache": (link("elsewhere", "/"), "a symbolic link"),
    "hard link": (link(f"{TOP}/x", "/etc/passwd", kind=b"1"), "a hard link"),
    "character device": (header(f"{TOP}/null".encode(), kind=b"3"), "a character device"),
    "block device": (header(f"{TOP}/disk".encode(), kind=b"4"), "a block device"),
    "pipe": (header(f"{TOP}/pipe".encode(), kind=b"6"), "a pipe"),
    "unknown kind": (header(f"{TOP}/x".encode(), kind=b"Z"), "of the type b'Z'"),
    "sparse of old GNU": (old_sparse(), "a sparse file"),
    "sparse by extended header": (extended({"GNU.sparse.major": "1"}) + file(f"{TOP}/x"), "a sparse file"),
    "link target on a file": (extended({"linkpath": "/etc/passwd"}) + file(f"{TOP}/x"), "only files and folders"),
    "same name twice": (GOOD, "twice"),
    "same name in other words": (file(f"./{TOP}/K/good.json"), "twice"),
    "file then folder": (folder(f"{TOP}/K/good.json"), "as a file and as a folder"),
    "file then file below it": (file(f"{TOP}/K/good.json/x"), "as a file and as a folder"),
    "folder then file": (file(f"{TOP}/K"), "twice"),
    "whiteout": (file(f"{TOP}/K/.wh.good.json"), "the whiteout"),
    "opaque whiteout": (file(f"{TOP}/K/.wh..wh..opq"), "the whiteout"),
    "folder as whiteout": (file(f"{TOP}/.wh.K/x"), "the whiteout"),
    "NUL in the name": (named(f"{TOP}/x\0y"), "not a plain path"),
    "NUL in a long name": (long_name(f"{TOP}/x\0y".encode()) + file("other"), "not a plain path"),
    "line feed in the name": (file(f"{TOP}/x\ny"), "not a plain path"),
    "escape sequence in the name": (file(f"{TOP}/\x1b[2J"), "not a plain path"),
    "writing direction in the name": (file(f"{TOP}/\u202egnp.so"), "not a plain path"),
    "backslash in the name": (file(f"{TOP}\\..\\x"), "not a plain path"),
    "name that is not UTF-8": (file(f"{TOP}/".encode() + b"\xff"), "not a tar archive"),
    "extended name that is not UTF-8": (named(b"\xff"), "not UTF-8"),
    "long name that is not UTF-8": (long_name(b"\xff") + file("other"), "not UTF-8"),
    "component of 300 bytes": (named(f"{TOP}/{'n' * 300}"), "too deep or too long"),
    "component of 300 bytes in two-byte letters": (named(f"{TOP}/{'ö' * 150}"), "too deep or too long"),
    "path of 2000 bytes": (named(TOP + "/seven77" * 250), "not a plain path"),
    "depth of 100": (named(TOP + "/d" * 100), "too deep or too long"),
    "name overridden": (extended({"path": "../../x"}) + file(f"{TOP}/x"), "points outside the archive"),
    "last of two names counts": (extended({"path": f"{TOP}/x"}) + extended({"path": "/x"}) + file("x"), "outside"),
    "long name leads out": (long_name(b"../x") + file(f"{TOP}/x"), "points outside the archive"),
    "negative size": (extended({"size": "-1"}) + file(f"{TOP}/x"), "with an invalid size"),
    "size that is no number": (extended({"size": "many"}) + file(f"{TOP}/x"), "with an invalid size"),
    "size in other digits": (extended({"size": "٣"}) + file(f"{TOP}/x"), "with an invalid size"),
    "huge size": (extended({"size": "9" * 18}) + file(f"{TOP}/x"), "a file may have"),
    "size of 5000 digits": (extended({"size": "9" * 5000}) + file(f"{TOP}/x"), "with an invalid size"),
    "negative size in base 256": (header(f"{TOP}/x".encode(), b"\xff" * 12), "a negative size"),
    "negative long name": (long_name(b"x", size=b"\xff" * 12), "an extended header of -1 bytes"),
    "huge size in base 256": (header(f"{TOP}/x".encode(), b"\x80" + b"\x7f" * 11), "a file may have"),
    "size field that is no number": (header(f"{TOP}/x".encode(), b"abcdefgh"), "not a tar archive"),
    "long name of 8 GB": (long_name(b"x", size=0o77777777777), "an extended header of 8589934591 bytes"),
    "extended header of 1 MB": (extended(record(b"path", b"x" * (1 << 20))), "an extended header of"),
    "record longer than its header": (extended(b"99 path=x\n") + file("x"), "invalid extended header"),
    "record of no length": (extended(b"0 path=x\n") + file("x"), "invalid extended header"),
    "record of a negative length": (extended(b"-9 path=x\n") + file("x"), "invalid extended header"),
    "record without a value": (extended(b"7 path\n") + file("x"), "invalid extended header"),
    "record without an end": (extended(b"9 path=xx") + file("x"), "invalid extended header"),
    "extended headers without end": (extended({"comment": "x"}) * 9 + file(f"{TOP}/x"), "extended headers in a row"),
    "global headers without end": (extended({"comment": "x"}, kind=b"g") * 9, "extended headers in a row"),
    "too many files": (b"".join(file(f"{TOP}/K/{number}", b"") for number in range(20)), "more than 20 files"),
    "too many folders on the way": (b"".join(file(f"{TOP}/{n}/f/x", b"") for n in range(9)), "more than 20 files"),
    "too many files elsewhere": (b"".join(file(f"etc/{number}", b"") for number in range(20)), "more than 20 files"),
    "one file too large": (file(f"{TOP}/x", bytes((1 << 19) + 1)), "a file may have at most 524288"),
    "too many bytes": (b"".join(file(f"{TOP}/{n}", bytes(1 << 18)) for n in range(5)), "more than 1048576 bytes"),
    "too many bytes elsewhere": (b"".join(file(f"x{n}", bytes(1 << 18)) for n in range(5)), "more than 1048576 bytes"),
    "checksum wrong": (header(b"x").replace(b"ustar", b"Ustar"), "not a tar archive"),
}


@pytest.fixture
def base(tmp_path: Path):
    """The folder that is extracted to, in one where whatever leads out is noticed."""
    around = tmp_path / "around"
    inner = around / "deep" / "base"
    inner.mkdir(parents=True)
    (around / "mine").write_bytes(b"mine")
    (around / "deep" / "mine").write_bytes(b"mine")
    yield inner
    outside = {name: body for name, body in files_of(around).items() if not name.startswith("deep/base/")}
    assert outside == {"mine": b"mine", "deep/mine": b"mine"}
    assert not Path("/tmp/accelkit-attack").exists()


@pytest.mark.parametrize("attack", ATTACKS)
async def test_malicious_archive_is_refused_and_leaves_no_files(
    hostile_registry: HostileRegistry, base: Path, attack: str
) -> None:
    parts, why = ATTACKS[attack]
    await refused(hostile_registry, packed(archive(GOOD, parts), GZIP), GZIP, base, why)


@pytest.mark.parametrize("media_type", [GZIP, ZSTD, PLAIN])
@pytest.mark.parametrize("attack", ["parent", "link alone", "huge size", "one file too large"])
async def test_malicious_archive_is_refused_with_any_compression(
    hostile_registry: HostileRegistry, base: Path, attack: str, media_type: str
) -> None:
    parts, why = ATTACKS[attack]
    await refused(hostile_registry, packed(archive(GOOD, parts), media_type), media_type, base, why)


@pytest.mark.parametrize("media_type", [GZIP, ZSTD, PLAIN])
@pytest.mark.parametrize("kept", [0, 1, 511, 512, 514, 1024], ids=lambda kept: f"{kept} bytes")
async def test_truncated_archive_is_refused_and_leaves_no_files(
    hostile_registry: HostileRegistry, base: Path, media_type: str, kept: int
) -> None:
    cut = archive(GOOD, file(f"{TOP}/x"))[:kept]
    await refused(hostile_registry, packed(cut, media_type), media_type, base, "truncated")


@pytest.mark.parametrize("media_type", [GZIP, ZSTD, PLAIN])
async def test_data_after_end_of_archive_is_refused(
    hostile_registry: HostileRegistry, base: Path, media_type: str
) -> None:
    layer = packed(archive(GOOD) + file(f"{TOP}/second"), media_type)
    await refused(hostile_registry, layer, media_type, base, "contains trailing data")


@pytest.mark.parametrize("media_type", [GZIP, ZSTD])
async def test_excessive_padding_is_refused(hostile_registry: HostileRegistry, base: Path, media_type: str) -> None:
    layer = packed(archive(GOOD) + bytes(4 << 20), media_type)
    await refused(hostile_registry, layer, media_type, base, "contains trailing data")


@pytest.mark.parametrize("media_type", [GZIP, ZSTD, PLAIN])
async def test_layer_that_is_not_tar_is_refused(hostile_registry: HostileRegistry, base: Path, media_type: str) -> None:
    await refused(hostile_registry, packed(b"garbage" * 500, media_type), media_type, base, "not a tar archive")


@pytest.mark.parametrize(("media_type", "trailing"), [(GZIP, b"more"), (GZIP, bytes(10)), (ZSTD, b"more of it")])
async def test_bytes_after_compressed_stream_are_refused(
    hostile_registry: HostileRegistry, base: Path, media_type: str, trailing: bytes
) -> None:
    layer = packed(archive(GOOD), media_type) + trailing
    await refused(hostile_registry, layer, media_type, base, "cannot decompress a layer")


async def test_corrupted_gzip_checksum_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = bytearray(packed(archive(GOOD), GZIP))
    layer[-8] ^= 1
    await refused(hostile_registry, bytes(layer), GZIP, base, "cannot decompress a layer")


async def test_zstd_window_of_2_gib_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    # Magic number, no content size, a window of 2^31 bytes, and one last block without content.
    layer = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([(31 - 10) << 3]) + b"\x01\x00\x00"
    await refused(hostile_registry, layer, ZSTD, base, "too much memory")


async def test_cache_format_with_path_traversal_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    labels = {"io.kserve.km/cache-type": "x/../../../around/deep"}
    layer = packed(archive(file("io.x/a", b"")), GZIP)
    await refused(hostile_registry, layer, GZIP, base, "of the unsupported format", labels=labels)


async def test_empty_layer_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    await refused(hostile_registry, packed(END, GZIP), GZIP, base, "has no folder io.triton.cache")


async def test_image_without_cache_directory_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = packed(archive(file("io.vllm.cache/x"), file("io.triton.manifest/manifest.json")), GZIP)
    await refused(hostile_registry, layer, GZIP, base, "has no folder io.triton.cache")


async def test_file_in_place_of_the_cache_directory_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    await refused(hostile_registry, packed(archive(file(TOP)), GZIP), GZIP, base, "has no folder io.triton.cache")
