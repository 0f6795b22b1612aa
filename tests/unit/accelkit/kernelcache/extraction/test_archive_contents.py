"""Good archives of every builder are extracted as they are, with modes and owners of our own."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
from pathlib import Path

import pytest
from hand_made_archives import (
    BLOCK,
    GZIP,
    archive,
    extended,
    file,
    folder,
    long_name,
    packed,
)
from registries.hostile import HostileRegistry
from served_images import extract, extract_layer, files_of, put_layers, unsigned

TOP = "io.triton.cache"
GOOD = file(f"{TOP}/K/good.json", b"{}")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
async def test_extracted_files_have_fixed_modes_and_owner(
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
        done = await extract_layer(hostile_registry, packed(layer, GZIP), GZIP, base)
    finally:
        os.umask(before)
    seen = {path: path.lstat() for path in [done.place.folder, *done.place.folder.rglob("*")]}
    assert {stat.S_IMODE(each.st_mode) for path, each in seen.items() if path.is_file()} == {0o644}
    assert {stat.S_IMODE(each.st_mode) for path, each in seen.items() if path.is_dir()} == {0o755}
    assert {(each.st_uid, each.st_gid) for each in seen.values()} == {(os.getuid(), os.getgid())}
    assert not any(os.listxattr(path) for path in seen if path.name == "able")


async def test_gnu_and_pax_long_names_are_supported(hostile_registry: HostileRegistry, base: Path) -> None:
    gnu, pax = f"{TOP}/{'g' * 200}", f"{TOP}/{'p' * 200}"
    layer = archive(long_name(gnu.encode()), file("cut"), extended({"path": pax}), file("cut too"))
    done = await extract_layer(hostile_registry, packed(layer, GZIP), GZIP, base)
    assert sorted(files_of(done.place.cache)) == ["g" * 200, "p" * 200]


async def test_empty_pax_record_cancels_an_earlier_record(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = archive(extended({"path": "other"}), extended({"path": "", "size": ""}), file(f"{TOP}/own", b"body"))
    done = await extract_layer(hostile_registry, packed(layer, GZIP), GZIP, base)
    assert files_of(done.place.cache) == {"own": b"body"}


async def test_pax_size_overrides_the_header_size(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = archive(extended({"size": "3"}), file(f"{TOP}/x", b"abcdef"))
    done = await extract_layer(hostile_registry, packed(layer, GZIP), GZIP, base)
    assert files_of(done.place.cache) == {"x": b"abc"}


async def test_gzip_with_several_members_is_one_archive(hostile_registry: HostileRegistry, base: Path) -> None:
    content = archive(GOOD)
    layer = b"".join(gzip.compress(content[start : start + 700]) for start in range(0, len(content), 700))
    done = await extract_layer(hostile_registry, layer, GZIP, base)
    assert files_of(done.place.cache) == {"K/good.json": b"{}"}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
async def test_ustar_gnu_and_pax_archives_are_extracted(
    hostile_registry: HostileRegistry, base: Path, form: int
) -> None:
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
    done = await extract_layer(hostile_registry, packed(out.getvalue(), GZIP), GZIP, base)
    assert files_of(done.place.cache) == {"Schlüssel/k.json": b"{}"}


async def test_files_outside_the_cache_directory_are_skipped(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = archive(file("etc/passwd", bytes(5000)), folder("./"), file("io.triton.cachet/x"), GOOD)
    image = put_layers(hostile_registry, [layer])
    done = await extract(hostile_registry, unsigned(image, base))
    assert sorted(files_of(done.place.folder)) == ["cache/K/good.json", "complete.json"]
