"""Where it may, the agent lets nobody write its caches, and reads them once after that."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from agent_worlds import A, B, folder
from content_stand import KERNEL, ContentStand

from accelkit.cacheagent.disk import content as module
from accelkit.cacheagent.disk.store import Store
from accelkit.kernelcache.extraction.integrity import protection
from accelkit.kernelcache.extraction.integrity.protection import (
    Protection,
    ProtectionState,
    delete_tree,
    is_protected,
    probe,
)
from accelkit.kernelcache.extraction.record import read_boot_id, write_record

LINK = "0123456789abcdef0123"
pytestmark = pytest.mark.usefixtures("able")


@pytest.fixture
async def stand(tmp_path: Path) -> Any:
    stand = ContentStand(tmp_path / "store")
    await stand.store.open()
    yield stand
    delete_tree(tmp_path / "store")


@pytest.fixture
def able(tmp_path: Path) -> None:
    if probe(tmp_path).state is not ProtectionState.PROTECTED:
        pytest.skip("no file can be made immutable here")


async def test_unprotected_files_are_protected_and_then_read(stand: ContentStand) -> None:
    kernel, poisoned = stand.put(), stand.put(B)
    poisoned.write_bytes(b"POISON")
    await stand.look()
    assert is_protected(kernel.parent)
    with pytest.raises(PermissionError):
        kernel.write_bytes(b"POISON")
    assert set(stand.store.stored) == {folder(A)}
    assert stand.record().boot == read_boot_id()
    assert not poisoned.exists()
    assert stand.count("accelkit_kernel_cache_protection", state="protected") == 1


async def test_protected_files_are_read_once_per_boot(stand: ContentStand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.put()
    reads: list[Path] = []
    real = module.verify_content

    def read(cache: Path, *more: Any) -> Any:
        reads.append(cache)
        return real(cache, *more)

    monkeypatch.setattr(module, "verify_content", read)
    await stand.look()
    stand.looks = stand.start()
    await stand.look()
    assert len(reads) == 1
    write_record(stand.root / folder(A), msgspec.structs.replace(stand.record(), boot="another run"))
    await stand.look()
    await stand.look()
    assert len(reads) == 2


async def test_agent_killed_before_reading_reads_at_next_start(
    stand: ContentStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.put().write_bytes(b"POISON")

    async def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_verify", killed)
    with pytest.raises(KeyboardInterrupt):
        await stand.look()
    monkeypatch.undo()
    assert is_protected(stand.root / folder(A) / "cache")
    stand.looks = stand.start()
    await stand.look()
    assert stand.store.stored == {}


async def test_files_that_cannot_be_protected_are_still_read(
    stand: ContentStand, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    stand.put()
    stand.put(B).write_bytes(b"POISON")
    monkeypatch.setattr(module, "protect", lambda _: Protection(ProtectionState.FAILED, "the disk is odd"))
    await stand.look()
    await stand.look()
    assert set(stand.store.stored) == {folder(A)}
    assert (
        sum("cannot protect the cache against writes: the disk is odd" in each.getMessage() for each in caplog.records)
        == 1
    )


async def test_protected_caches_can_be_collected(stand: ContentStand) -> None:
    stand.put()
    await stand.look()
    assert await stand.store.collect(folder(A))
    assert not (stand.root / folder(A)).exists()
    kernel = stand.put()
    await stand.look()
    (stand.root / folder(A)).rename(stand.root / f".{folder(A)}.partial")
    await Store(stand.root).open()
    assert not kernel.exists()
    assert [each.name for each in stand.root.iterdir() if each.name.endswith(".partial")] == []


def test_leftover_probe_file_does_not_break_next_probe(tmp_path: Path) -> None:
    path = tmp_path / protection._PROBE
    path.touch()
    protection._set_immutable(path, immutable=True)
    assert probe(tmp_path) == Protection(ProtectionState.PROTECTED)
    assert list(tmp_path.iterdir()) == []


async def test_root_without_capability_cannot_write_protected_files(stand: ContentStand) -> None:
    if os.geteuid() or not Path("/usr/bin/setpriv").exists():
        pytest.skip("no file can be made immutable here")
    kernel = stand.put()
    await stand.look()
    without = ["setpriv", "--bounding-set=-linux_immutable", "--inh-caps=-linux_immutable", "sh", "-c"]
    for attempt in (f"echo > {kernel}", f"chattr -i {kernel} && echo > {kernel}", f"rm -f {kernel}"):
        done = subprocess.run([*without, attempt], check=False, capture_output=True)
        assert done.returncode
        assert kernel.read_bytes() == KERNEL
