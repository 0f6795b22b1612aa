"""What lies where a cache is to go is believed, replaced or refused, but never followed and never taken for a cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from registries.hostile import HostileRegistry
from served_images import HELLO, extract, files_of, put_layers, unsigned, visible

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction import read_completed
from accelkit.kernelcache.extraction.folder import Place
from accelkit.kernelcache.extraction.record import read_record, write_record


async def test_symlinks_in_place_of_extraction_files_are_not_followed(
    hostile_registry: HostileRegistry, tmp_path: Path, base: Path
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    place = Place.of(base, image.digest, None)
    base.mkdir()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_bytes(b"mine")
    place.lock.symlink_to(mine / "file")
    with pytest.raises(CacheError, match="cannot write to"):
        await extract(hostile_registry, unsigned(image, base))
    place.lock.unlink()
    place.partial.symlink_to(mine)
    place.displaced.symlink_to(mine)
    place.folder.symlink_to(mine)
    assert (await extract(hostile_registry, unsigned(image, base))).fresh
    assert files_of(mine) == {"file": b"mine"}
    assert visible(base) == [place.folder.name]
    assert not place.folder.is_symlink()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda document: document | {"version": 2}, id="newer version"),
        pytest.param(lambda document: document | {"mount_path": "/elsewhere"}, id="another mount path"),
        pytest.param(lambda document: document | {"image": "quay.io/a/b@sha256:" + "0" * 64}, id="another image"),
        pytest.param(lambda document: {"image": document["image"]}, id="fields are missing"),
        pytest.param(lambda _: None, id="no record"),
        pytest.param(lambda _: b"\xff garbage", id="garbage"),
        pytest.param(lambda _: b" " * (2 << 20), id="too long"),
    ],
)
async def test_directory_without_readable_record_is_replaced(
    hostile_registry: HostileRegistry, base: Path, change
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    place = (await extract(hostile_registry, unsigned(image, base))).place
    record = place.folder / "complete.json"
    changed = change(json.loads(record.read_bytes()))
    if changed is None:
        record.unlink()
    else:
        record.write_bytes(changed if isinstance(changed, bytes) else json.dumps(changed).encode())
    (place.cache / "half").write_bytes(b"")
    assert read_completed(place) is None
    assert (await extract(hostile_registry, unsigned(image, base))).fresh
    assert files_of(place.cache) == {"K/k.json": b"{}"}
    assert visible(base) == [place.folder.name]


async def test_record_without_cache_directory_is_ignored(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [HELLO])
    place = (await extract(hostile_registry, unsigned(image, base))).place
    place.cache.rename(base / "moved")
    assert read_completed(place) is None


@pytest.mark.parametrize(("left", "found"), [(b"{}", True), (b"", False), (b"{} and more", True), (None, False)])
async def test_files_are_checked_against_the_record_after_a_reboot(
    hostile_registry: HostileRegistry, base: Path, left: bytes | None, found: bool
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    done = await extract(hostile_registry, unsigned(image, base))
    document = json.loads((done.place.folder / "complete.json").read_bytes())
    (done.place.folder / "complete.json").write_text(json.dumps(document | {"boot": "another"}))
    path = done.place.cache / "K/k.json"
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)
    again = await extract(hostile_registry, unsigned(image, base))
    assert again.fresh is not found
    assert path.read_bytes() == (left if found else b"{}")


async def test_record_is_replaced_atomically(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [HELLO])
    done = await extract(hostile_registry, unsigned(image, base))
    with (done.place.folder / "complete.json").open("rb") as old:
        write_record(done.place.folder, done.record)
        assert json.loads(old.read())["image"] == str(image)
    assert read_record(done.place.folder) == done.record
    assert sorted(each.name for each in done.place.folder.iterdir()) == ["cache", "complete.json"]
