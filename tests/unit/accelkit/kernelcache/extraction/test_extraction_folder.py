"""What lies where a cache is to go is believed, replaced or refused, but never followed and never taken for a cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from served_images import HELLO, ImageStand, files_of

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction import read_completed
from accelkit.kernelcache.extraction.folder import Place
from accelkit.kernelcache.extraction.record import read_record, write_record


async def test_links_in_the_place_of_our_files_are_not_followed(stand: ImageStand, tmp_path: Path) -> None:
    image = stand.put_layers([HELLO])
    place = Place.of(stand.base, image.digest, None)
    stand.base.mkdir()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_bytes(b"mine")
    place.lock.symlink_to(mine / "file")
    with pytest.raises(CacheError, match="cannot be written"):
        await stand.extract(image)
    place.lock.unlink()
    place.partial.symlink_to(mine)
    place.displaced.symlink_to(mine)
    place.folder.symlink_to(mine)
    assert (await stand.extract(image)).fresh
    assert files_of(mine) == {"file": b"mine"}
    assert stand.visible() == [place.folder.name]
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
async def test_a_folder_without_a_record_to_be_understood_is_replaced(stand: ImageStand, change) -> None:
    image = stand.put_layers([HELLO])
    place = (await stand.extract(image)).place
    record = place.folder / "complete.json"
    changed = change(json.loads(record.read_bytes()))
    if changed is None:
        record.unlink()
    else:
        record.write_bytes(changed if isinstance(changed, bytes) else json.dumps(changed).encode())
    (place.cache / "half").write_bytes(b"")
    assert read_completed(place) is None
    assert (await stand.extract(image)).fresh
    assert files_of(place.cache) == {"K/k.json": b"{}"}
    assert stand.visible() == [place.folder.name]


@pytest.mark.parametrize(("left", "found"), [(b"{}", True), (b"", False), (b"{} and more", True), (None, False)])
async def test_after_a_restart_of_the_node_the_files_are_counted(
    stand: ImageStand, left: bytes | None, found: bool
) -> None:
    image = stand.put_layers([HELLO])
    done = await stand.extract(image)
    document = json.loads((done.place.folder / "complete.json").read_bytes())
    (done.place.folder / "complete.json").write_text(json.dumps(document | {"boot": "another"}))
    path = done.place.cache / "K/k.json"
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)
    again = await stand.extract(image)
    assert again.fresh is not found
    assert path.read_bytes() == (left if found else b"{}")


async def test_a_record_is_replaced_in_one_step_and_counts_with_its_cache_alone(stand: ImageStand) -> None:
    image = stand.put_layers([HELLO])
    done = await stand.extract(image)
    with (done.place.folder / "complete.json").open("rb") as old:
        write_record(done.place.folder, done.record)
        assert json.loads(old.read())["image"] == str(image)
    assert read_record(done.place.folder) == done.record
    assert sorted(each.name for each in done.place.folder.iterdir()) == ["cache", "complete.json"]
    place = (await stand.extract(image)).place
    place.cache.rename(stand.base / "moved")
    assert read_completed(place) is None
