"""A volume of its own for one cache: filled at its root, whole or not, and never mixed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from hand_made_archives import archive, file
from registries import misbehaviour
from registries.hostile import HostileRegistry
from served_images import client_of, files_of, put_layers, unsigned

from accelkit.cli import main
from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache import volumes
from accelkit.kernelcache.extraction import CompletionRecord
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.volumes import check_volume, fill_volume

TREE = archive(
    file("io.triton.cache/A/__grp__k.json", json.dumps({"child_paths": {"k.json": "/old/A/k.json"}}).encode()),
    file("io.triton.cache/A/k.json", b"{}"),
    file("io.triton.cache/B/b.json", b"[]"),
)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    root = tmp_path / "volume"
    root.mkdir()
    (root / "lost+found").mkdir()
    return root


async def fill(registry: HostileRegistry, image: Reference, root: Path, mount_path: str = "/cache") -> CompletionRecord:
    async with client_of(registry) as client:
        return await fill_volume(client, unsigned(image, root, mount_path=mount_path))


async def test_volume_root_contains_files_relocated_to_mount_path(hostile_registry, volume) -> None:
    image = put_layers(hostile_registry, [TREE])
    record = await fill(hostile_registry, image, volume)
    found = files_of(volume)
    shown = {name for name in found if not name.startswith(".accelkit/")}
    assert shown == {"A/__grp__k.json", "A/k.json", "B/b.json"}
    assert json.loads(found["A/__grp__k.json"]) == {"child_paths": {"k.json": "/cache/A/k.json"}}
    assert record.files == 3
    assert check_volume(volume, image.require_digest(), "/cache") == record


async def test_volume_keeps_only_completion_record_beside_files(hostile_registry, volume) -> None:
    await fill(hostile_registry, put_layers(hostile_registry, [TREE]), volume)
    hidden = {each.name for each in (volume / ".accelkit").iterdir() if not each.name.endswith(".lock")}
    assert hidden == {"complete.json"}


async def test_second_fill_does_not_change_volume(hostile_registry, volume) -> None:
    image = put_layers(hostile_registry, [TREE])
    await fill(hostile_registry, image, volume)
    before = {path: path.stat().st_mtime_ns for path in volume.rglob("*")}
    hostile_registry.requests.clear()
    await fill(hostile_registry, image, volume)
    assert {path: path.stat().st_mtime_ns for path in volume.rglob("*")} == before
    assert not hostile_registry.requests


@pytest.mark.parametrize("moved", [0, 1])
async def test_fill_resumes_after_kill_while_moving_files(hostile_registry, volume, moved, monkeypatch) -> None:
    image = put_layers(hostile_registry, [TREE])
    rename, done = Path.rename, []

    def kill(self: Path, target: Path) -> Path:
        if target.parent == volume:
            if len(done) == moved:
                raise _KilledError
            done.append(target)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", kill)
    place, record = await _extracted(hostile_registry, image, volume)
    with pytest.raises(_KilledError):
        volumes._publish(volume, place, record)
    monkeypatch.undo()
    with pytest.raises(CacheError, match="is not filled"):
        check_volume(volume, image.require_digest(), "/cache")
    # As on another node: the record of what was extracted is not trusted there before its files are counted.
    for record in (volume / ".accelkit").rglob("complete.json"):
        document = json.loads(record.read_text()) | {"boot": "another"}
        record.write_text(json.dumps(document))
    await fill(hostile_registry, image, volume)
    assert check_volume(volume, image.require_digest(), "/cache").files == 3


class _KilledError(Exception):
    pass


async def _extracted(registry, image, root):
    async with client_of(registry) as client:
        result = await volumes.extract_image(client, unsigned(image, root / ".accelkit", mount_path="/cache"))
    return result.place, result.record


async def test_volume_with_unexpected_files_is_rejected(hostile_registry, volume) -> None:
    (volume / "theirs").write_text("x")
    with pytest.raises(CacheError, match="contains unexpected files, for example 'theirs'"):
        await fill(hostile_registry, put_layers(hostile_registry, [TREE]), volume)
    assert not (volume / ".accelkit").exists()


async def test_volume_filled_with_another_digest_is_rejected(hostile_registry, volume) -> None:
    await fill(hostile_registry, put_layers(hostile_registry, [TREE]), volume)
    other = put_layers(hostile_registry, [archive(file("io.triton.cache/C/c.json", b"{}"))])
    with pytest.raises(CacheError, match="is filled with"):
        await fill(hostile_registry, other, volume)


async def test_cache_with_accelkit_folder_is_rejected(hostile_registry, volume) -> None:
    image = put_layers(hostile_registry, [archive(file("io.triton.cache/.accelkit/complete.json", b"{}"))])
    with pytest.raises(CacheError, match=r"root of the cache contains '\.accelkit'"):
        await fill(hostile_registry, image, volume)
    with pytest.raises(CacheError, match="is not filled"):
        check_volume(volume, image.require_digest(), "/cache")


async def test_corrupt_blob_leaves_no_visible_files(hostile_registry, volume) -> None:
    image = put_layers(hostile_registry, [TREE])
    hostile_registry.on("GET", ".*/blobs/.*", misbehaviour.changed(b"of another digest"))
    with pytest.raises((CacheError, RegistryError)):
        await fill(hostile_registry, image, volume)
    assert {each.name for each in volume.iterdir()} <= {".accelkit", "lost+found"}


async def test_image_without_digest_is_rejected(hostile_registry, volume) -> None:
    image = put_layers(hostile_registry, [TREE])
    with pytest.raises(CacheError, match="specify the image by digest"):
        await fill(hostile_registry, Reference(image.registry, image.repository, "v1"), volume)


async def test_check_rejects_volume_with_missing_file(hostile_registry, volume) -> None:
    image = put_layers(hostile_registry, [TREE])
    await fill(hostile_registry, image, volume)
    (volume / "B" / "b.json").unlink()
    with pytest.raises(CacheError, match="has 2 of 3 files"):
        check_volume(volume, image.require_digest(), "/cache")


@pytest.mark.parametrize("filled", [True, False])
async def test_check_option_writes_nothing_to_volume(hostile_registry, volume, filled) -> None:
    image = put_layers(hostile_registry, [TREE])
    if filled:
        await fill(hostile_registry, image, volume)
    before = sorted(volume.rglob("*"))
    words = ["cache", "fill", str(image), str(volume), "--mount-path", "/cache", "--check"]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code == 0) is filled, done.output
    assert sorted(volume.rglob("*")) == before
    shutil.rmtree(volume)


def test_fill_command_requires_policy(volume) -> None:
    image = f"quay.io/acme/cache@sha256:{'1' * 64}"
    done = CliRunner().invoke(main, ["cache", "fill", image, str(volume), "--mount-path", "/cache"])
    assert done.exit_code == 2
    assert "--policy" in done.output
