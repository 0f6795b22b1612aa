"""No archive leads out of its folder, fills a disk or leaves anything behind that others could take for a cache."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hand_made_archives import (
    BLOCK,
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
from served_images import client_of, files_of, image_of, put, put_layers, unsigned, visible

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction import Extracted, Limits, extract_image

TOP = "io.triton.cache"
GOOD = file(f"{TOP}/K/good.json", b"{}")
SMALL = Limits(total_bytes=1 << 20, file_bytes=1 << 19, files=20)
LABEL = "cache.triton.image/cache-size-bytes"


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
    "parent": (file("../x"), "leads elsewhere"),
    "parent below the cache": (file(f"{TOP}/../../x"), "leads elsewhere"),
    "parent at the end": (folder(f"{TOP}/.."), "leads elsewhere"),
    "absolute": (file("/tmp/accelkit-attack"), "leads elsewhere"),
    "absolute folder": (folder("/tmp"), "leads elsewhere"),
    "dot within": (file(f"{TOP}/./x"), "leads elsewhere"),
    "empty part": (file(f"{TOP}//x"), "leads elsewhere"),
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
    "link target on a file": (extended({"linkpath": "/etc/passwd"}) + file(f"{TOP}/x"), "files and folders only"),
    "same name twice": (GOOD, "twice"),
    "same name in other words": (file(f"./{TOP}/K/good.json"), "twice"),
    "file then folder": (folder(f"{TOP}/K/good.json"), "as a file and as a folder"),
    "file then file below it": (file(f"{TOP}/K/good.json/x"), "as a file and as a folder"),
    "folder then file": (file(f"{TOP}/K"), "twice"),
    "whiteout": (file(f"{TOP}/K/.wh.good.json"), "the whiteout"),
    "opaque whiteout": (file(f"{TOP}/K/.wh..wh..opq"), "the whiteout"),
    "folder as whiteout": (file(f"{TOP}/.wh.K/x"), "the whiteout"),
    "NUL in the name": (named(f"{TOP}/x\0y"), "no plain path"),
    "NUL in a long name": (long_name(f"{TOP}/x\0y".encode()) + file("other"), "no plain path"),
    "line feed in the name": (file(f"{TOP}/x\ny"), "no plain path"),
    "escape sequence in the name": (file(f"{TOP}/\x1b[2J"), "no plain path"),
    "writing direction in the name": (file(f"{TOP}/\u202egnp.so"), "no plain path"),
    "backslash in the name": (file(f"{TOP}\\..\\x"), "no plain path"),
    "name that is not UTF-8": (file(f"{TOP}/".encode() + b"\xff"), "no tar archive"),
    "extended name that is not UTF-8": (named(b"\xff"), "not UTF-8"),
    "long name that is not UTF-8": (long_name(b"\xff") + file("other"), "not UTF-8"),
    "component of 300 bytes": (named(f"{TOP}/{'n' * 300}"), "too deep or too long"),
    "component of 300 bytes in two-byte letters": (named(f"{TOP}/{'ö' * 150}"), "too deep or too long"),
    "path of 2000 bytes": (named(TOP + "/seven77" * 250), "no plain path"),
    "depth of 100": (named(TOP + "/d" * 100), "too deep or too long"),
    "name overridden": (extended({"path": "../../x"}) + file(f"{TOP}/x"), "leads elsewhere"),
    "last of two names counts": (extended({"path": f"{TOP}/x"}) + extended({"path": "/x"}) + file("x"), "elsewhere"),
    "long name leads out": (long_name(b"../x") + file(f"{TOP}/x"), "leads elsewhere"),
    "negative size": (extended({"size": "-1"}) + file(f"{TOP}/x"), "no size that can be read"),
    "size that is no number": (extended({"size": "many"}) + file(f"{TOP}/x"), "no size that can be read"),
    "size in other digits": (extended({"size": "٣"}) + file(f"{TOP}/x"), "no size that can be read"),
    "huge size": (extended({"size": "9" * 18}) + file(f"{TOP}/x"), "a file may have"),
    "size of 5000 digits": (extended({"size": "9" * 5000}) + file(f"{TOP}/x"), "no size that can be read"),
    "negative size in base 256": (header(f"{TOP}/x".encode(), b"\xff" * 12), "a negative size"),
    "negative long name": (long_name(b"x", size=b"\xff" * 12), "an extended header of -1 bytes"),
    "huge size in base 256": (header(f"{TOP}/x".encode(), b"\x80" + b"\x7f" * 11), "a file may have"),
    "size field that is no number": (header(f"{TOP}/x".encode(), b"abcdefgh"), "no tar archive"),
    "long name of 8 GB": (long_name(b"x", size=0o77777777777), "an extended header of 8589934591 bytes"),
    "extended header of 1 MB": (extended(record(b"path", b"x" * (1 << 20))), "an extended header of"),
    "record longer than its header": (extended(b"99 path=x\n") + file("x"), "cannot be read"),
    "record of no length": (extended(b"0 path=x\n") + file("x"), "cannot be read"),
    "record of a negative length": (extended(b"-9 path=x\n") + file("x"), "cannot be read"),
    "record without a value": (extended(b"7 path\n") + file("x"), "cannot be read"),
    "record without an end": (extended(b"9 path=xx") + file("x"), "cannot be read"),
    "extended headers without end": (extended({"comment": "x"}) * 9 + file(f"{TOP}/x"), "extended headers in a row"),
    "global headers without end": (extended({"comment": "x"}, kind=b"g") * 9, "extended headers in a row"),
    "too many files": (b"".join(file(f"{TOP}/K/{number}", b"") for number in range(20)), "more than 20 files"),
    "too many folders on the way": (b"".join(file(f"{TOP}/{n}/f/x", b"") for n in range(9)), "more than 20 files"),
    "too many files elsewhere": (b"".join(file(f"etc/{number}", b"") for number in range(20)), "more than 20 files"),
    "one file too large": (file(f"{TOP}/x", bytes((1 << 19) + 1)), "a file may have 524288"),
    "too many bytes": (b"".join(file(f"{TOP}/{n}", bytes(1 << 18)) for n in range(5)), "more than 1048576 bytes"),
    "too many bytes elsewhere": (b"".join(file(f"x{n}", bytes(1 << 18)) for n in range(5)), "more than 1048576 bytes"),
    "checksum wrong": (header(b"x").replace(b"ustar", b"Ustar"), "no tar archive"),
}


async def extracted(registry: HostileRegistry, layer: bytes, media_type: str, base: Path, **changes) -> Extracted:
    image = put(registry, image_of([(layer, media_type)], changes.pop("labels", None)))
    async with client_of(registry) as client:
        return await extract_image(client, unsigned(image, base, **{"limits": SMALL, **changes}))


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


async def refused(registry: HostileRegistry, layer: bytes, media_type: str, base: Path, why: str, **changes) -> None:
    with pytest.raises(CacheError) as caught:
        await extracted(registry, layer, media_type, base, **changes)
    assert why in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1000
    assert visible(base) == []


@pytest.mark.parametrize("attack", ATTACKS)
async def test_an_attack_leaves_nothing(hostile_registry: HostileRegistry, base: Path, attack: str) -> None:
    parts, why = ATTACKS[attack]
    await refused(hostile_registry, packed(archive(GOOD, parts), GZIP), GZIP, base, why)


@pytest.mark.parametrize("media_type", [GZIP, ZSTD, PLAIN])
@pytest.mark.parametrize("attack", ["parent", "link alone", "huge size", "one file too large"])
async def test_compression_makes_no_difference(
    hostile_registry: HostileRegistry, base: Path, attack: str, media_type: str
) -> None:
    parts, why = ATTACKS[attack]
    await refused(hostile_registry, packed(archive(GOOD, parts), media_type), media_type, base, why)


@pytest.mark.parametrize("media_type", [GZIP, ZSTD, PLAIN])
@pytest.mark.parametrize("kept", [0, 1, 511, 512, 514, 1024], ids=lambda kept: f"{kept} bytes")
async def test_an_archive_that_ends_in_the_middle_leaves_nothing(
    hostile_registry: HostileRegistry, base: Path, media_type: str, kept: int
) -> None:
    cut = archive(GOOD, file(f"{TOP}/x"))[:kept]
    await refused(hostile_registry, packed(cut, media_type), media_type, base, "in the middle")


@pytest.mark.parametrize("media_type", [GZIP, ZSTD, PLAIN])
async def test_what_follows_the_end_of_an_archive_is_refused(
    hostile_registry: HostileRegistry, base: Path, media_type: str
) -> None:
    layer = packed(archive(GOOD) + file(f"{TOP}/second"), media_type)
    await refused(hostile_registry, layer, media_type, base, "something follows the end")


@pytest.mark.parametrize("media_type", [GZIP, ZSTD])
async def test_padding_without_end_is_refused(hostile_registry: HostileRegistry, base: Path, media_type: str) -> None:
    layer = packed(archive(GOOD) + bytes(4 << 20), media_type)
    await refused(hostile_registry, layer, media_type, base, "something follows the end")


@pytest.mark.parametrize("media_type", [GZIP, ZSTD, PLAIN])
async def test_garbage_is_no_archive(hostile_registry: HostileRegistry, base: Path, media_type: str) -> None:
    await refused(hostile_registry, packed(b"garbage" * 500, media_type), media_type, base, "no tar archive")


@pytest.mark.parametrize(("media_type", "trailing"), [(GZIP, b"more"), (GZIP, bytes(10)), (ZSTD, b"more of it")])
async def test_bytes_after_the_compressed_end_are_refused(
    hostile_registry: HostileRegistry, base: Path, media_type: str, trailing: bytes
) -> None:
    layer = packed(archive(GOOD), media_type) + trailing
    await refused(hostile_registry, layer, media_type, base, "cannot be decompressed")


async def test_a_corrupted_gzip_checksum_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = bytearray(packed(archive(GOOD), GZIP))
    layer[-8] ^= 1
    await refused(hostile_registry, bytes(layer), GZIP, base, "cannot be decompressed")


async def test_a_zstd_window_of_2_gib_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    # Magic number, no content size, a window of 2^31 bytes, and one last block without content.
    layer = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([(31 - 10) << 3]) + b"\x01\x00\x00"
    await refused(hostile_registry, layer, ZSTD, base, "too much memory")


@pytest.mark.parametrize("media_type", [GZIP, ZSTD])
async def test_a_bomb_stops_at_the_limit_with_little_memory(
    hostile_registry: HostileRegistry, base: Path, media_type: str
) -> None:
    size = 256 << 20
    bomb = io.BytesIO()
    opened = gzip.GzipFile(fileobj=bomb, mode="wb", compresslevel=1) if media_type == GZIP else None
    writer = opened or zstandard.ZstdCompressor(level=1).stream_writer(bomb, closefd=False)
    with writer:
        writer.write(header(f"{TOP}/bomb".encode(), size))
        for _ in range(size >> 20):
            writer.write(bytes(1 << 20))
        writer.write(END)
    limits = Limits(total_bytes=64 << 20, file_bytes=1 << 30)
    tracemalloc.start()
    try:
        await refused(hostile_registry, bomb.getvalue(), media_type, base, "more than 67108864 bytes", limits=limits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


async def test_memory_does_not_grow_with_the_cache(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = packed(archive(*(file(f"{TOP}/{number}", bytes(8 << 20)) for number in range(8))), GZIP)
    tracemalloc.start()
    try:
        done = await extracted(hostile_registry, layer, GZIP, base, limits=Limits())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.record.size_bytes == 64 << 20
    assert peak < 16 << 20


async def test_an_image_larger_than_its_label_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = packed(archive(*(file(f"{TOP}/{n}", bytes(1 << 20)) for n in range(20))), GZIP)
    labels = {"cache.triton.image/summary": '{"targets":[]}', LABEL: "1000"}
    limits = Limits(file_bytes=1 << 30)
    await refused(hostile_registry, layer, GZIP, base, "files have more than", labels=labels, limits=limits)


async def test_a_label_over_the_limit_is_refused_before_a_layer_is_fetched(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    labels = {"cache.triton.image/summary": '{"targets":[]}', LABEL: str(1 << 40)}
    layer = packed(archive(GOOD), GZIP)
    await refused(hostile_registry, layer, GZIP, base, "says that it has 1099511627776 bytes", labels=labels)
    assert len(hostile_registry.received("GET", ".*/blobs/.*")) == 1


async def test_layers_announced_over_the_limit_are_not_fetched(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put(hostile_registry, image_of([(packed(archive(GOOD), GZIP), GZIP)], sizes=[1 << 40]))
    async with client_of(hostile_registry) as client:
        with pytest.raises(CacheError, match="says that it has"):
            await extract_image(client, unsigned(image, base))
    assert len(hostile_registry.received("GET", ".*/blobs/.*")) == 1
    assert visible(base) == []


async def test_a_format_that_leads_elsewhere_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    labels = {"io.kserve.km/cache-type": "x/../../../around/deep"}
    layer = packed(archive(file("io.x/a", b"")), GZIP)
    await refused(hostile_registry, layer, GZIP, base, "which is not known", labels=labels)


async def test_an_empty_layer_is_no_cache(hostile_registry: HostileRegistry, base: Path) -> None:
    await refused(hostile_registry, packed(END, GZIP), GZIP, base, "has no io.triton.cache")


async def test_an_image_without_the_cache_folder_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = packed(archive(file("io.vllm.cache/x"), file("io.triton.manifest/manifest.json")), GZIP)
    await refused(hostile_registry, layer, GZIP, base, "has no io.triton.cache")


async def test_a_file_in_the_place_of_the_cache_folder_is_refused(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    await refused(hostile_registry, packed(archive(file(TOP)), GZIP), GZIP, base, "has no io.triton.cache")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
async def test_modes_and_owners_are_ours_whatever_the_archive_and_the_umask_say(
    hostile_registry: HostileRegistry, base: Path, umask: int
) -> None:
    layer = archive(
        folder(f"{TOP}/sticky", mode=0o1777),
        folder(f"{TOP}/closed", mode=0o000),
        file(f"{TOP}/closed/setuid", mode=0o4755),
        file(f"{TOP}/sticky/setgid", mode=0o2777),
        file(f"{TOP}/implied/unreadable", mode=0o000),
        extended({"SCHILY.xattr.security.capability": "x", "uid": "0", "mode": "4777"}) + file(f"{TOP}/able"),
    )
    before = os.umask(umask)
    try:
        done = await extracted(hostile_registry, packed(layer, GZIP), GZIP, base)
    finally:
        os.umask(before)
    seen = {path: path.lstat() for path in [done.place.folder, *done.place.folder.rglob("*")]}
    assert {stat.S_IMODE(each.st_mode) for path, each in seen.items() if path.is_file()} == {0o644}
    assert {stat.S_IMODE(each.st_mode) for path, each in seen.items() if path.is_dir()} == {0o755}
    assert {(each.st_uid, each.st_gid) for each in seen.values()} == {(os.getuid(), os.getgid())}
    assert not any(os.listxattr(path) for path in seen if path.name == "able")


async def test_long_names_of_both_kinds_are_taken(hostile_registry: HostileRegistry, base: Path) -> None:
    gnu, pax = f"{TOP}/{'g' * 200}", f"{TOP}/{'p' * 200}"
    layer = archive(long_name(gnu.encode()), file("cut"), extended({"path": pax}), file("cut too"))
    done = await extracted(hostile_registry, packed(layer, GZIP), GZIP, base)
    assert sorted(files_of(done.place.cache)) == ["g" * 200, "p" * 200]


async def test_an_empty_record_takes_a_name_back(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = archive(extended({"path": "other"}), extended({"path": "", "size": ""}), file(f"{TOP}/own", b"body"))
    done = await extracted(hostile_registry, packed(layer, GZIP), GZIP, base)
    assert files_of(done.place.cache) == {"own": b"body"}


async def test_an_extended_size_is_the_size(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = archive(extended({"size": "3"}), file(f"{TOP}/x", b"abcdef"))
    done = await extracted(hostile_registry, packed(layer, GZIP), GZIP, base)
    assert files_of(done.place.cache) == {"x": b"abc"}


async def test_gzip_of_several_members_is_one_archive(hostile_registry: HostileRegistry, base: Path) -> None:
    content = archive(GOOD)
    layer = b"".join(gzip.compress(content[start : start + 700]) for start in range(0, len(content), 700))
    done = await extracted(hostile_registry, layer, GZIP, base)
    assert files_of(done.place.cache) == {"K/good.json": b"{}"}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
async def test_archives_of_every_builder_are_read(hostile_registry: HostileRegistry, base: Path, form: int) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as made:
        for name in (".", f"./{TOP}", f"./{TOP}/Schlüssel"):
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE
            made.addfile(entry)
        entry = tarfile.TarInfo(f"./{TOP}/Schlüssel/k.json")
        entry.size, entry.mtime = 2, 1.5
        made.addfile(entry, io.BytesIO(b"{}"))
    assert len(out.getvalue()) > 10 * BLOCK  # padded to a tape's record
    done = await extracted(hostile_registry, packed(out.getvalue(), GZIP), GZIP, base)
    assert files_of(done.place.cache) == {"Schlüssel/k.json": b"{}"}


async def test_what_is_not_the_cache_is_passed_over(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = archive(file("etc/passwd", bytes(5000)), folder("./"), file("io.triton.cachet/x"), GOOD)
    image = put_layers(hostile_registry, [layer])
    async with client_of(hostile_registry) as client:
        done = await extract_image(client, unsigned(image, base))
    assert sorted(files_of(done.place.folder)) == ["cache/K/good.json", "complete.json"]
