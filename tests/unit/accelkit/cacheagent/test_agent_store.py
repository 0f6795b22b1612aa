"""The folder of caches: what lies there, where links lead, what is remembered, and what is in the way."""

from __future__ import annotations

import errno
import fcntl
import json
from pathlib import Path

import msgspec
import pytest
from agent_worlds import LABELS, MOUNT, A, B, C, folder

from accelkit.cacheagent.disk import store as stores
from accelkit.cacheagent.disk.agent_state import _MAX_POLICIES, AgentState, read_ledger, write_ledger
from accelkit.cacheagent.disk.content import ContentChecks
from accelkit.cacheagent.disk.store import Store
from accelkit.cacheagent.metrics import Metrics
from accelkit.cacheagent.planning.world import WITHDRAWN
from accelkit.errors import ConfigurationError
from accelkit.kernelcache.extraction import CompletionRecord
from accelkit.kernelcache.extraction.integrity.protection import Protection, ProtectionState
from accelkit.kernelcache.extraction.record import read_boot_id, read_record, write_record

LINK = "0123456789abcdef0123"


def extracted(root: Path, digest: str = A, *, policies: str = "p", verified: str = "2026-11-24T00:00:00+00:00") -> Path:
    """A folder as an extraction leaves it."""
    path = root / folder(digest)
    (path / "cache").mkdir(parents=True)
    (path / "cache" / "k.cubin").write_bytes(b"kernel")
    record = CompletionRecord(
        image=f"q.io/team/add@{digest}",
        format="triton",
        mount_path=MOUNT,
        files=1,
        size_bytes=6,
        policy_digest=policies,
        signatures=("ci",),
        extracted_at=verified,
        verified_at=verified,
        labels=LABELS,
        boot=read_boot_id() or "",
    )
    write_record(path, record)
    return path


async def opened(root: Path, **limits: int) -> Store:
    store = Store(root, **limits)
    await store.open()
    return store


async def test_stored_folders_are_listed_with_satisfied_policies(tmp_path):
    extracted(tmp_path)
    extracted(tmp_path, B, verified="long ago")
    store = await opened(tmp_path)
    assert set(store.stored) == {folder(A), folder(B)}
    assert store.stored[folder(A)].satisfied == {"p": 1795478400.0}
    # A time that nobody can read is long ago.
    assert store.stored[folder(B)].satisfied == {"p": 0.0}


async def test_satisfied_policies_survive_restart(tmp_path):
    extracted(tmp_path, policies="first")
    store = await opened(tmp_path)
    record = stores.list_extracted(tmp_path).caches[0].record
    store.take(folder(A), record, "second")
    assert set((await opened(tmp_path)).stored[folder(A)].satisfied) == {"first", "second"}


async def test_folders_of_older_releases_are_listed(tmp_path):
    path = extracted(tmp_path)
    old = path.rename(tmp_path / path.name[:-24])
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / LINK).symlink_to(f"../{old.name}/cache")
    (tmp_path / f".{old.name}.partial").mkdir()
    store = await opened(tmp_path)
    assert (set(store.stored), store.links) == ({old.name}, {LINK: old.name})
    assert not (tmp_path / f".{old.name}.partial").exists()


@pytest.mark.parametrize(
    "what", ["empty", "no record", "record of another digest", "record of another mount path", "newer"]
)
async def test_folders_with_invalid_records_are_broken_and_collected(tmp_path, what):
    path = extracted(tmp_path)
    record = path / "complete.json"
    known = json.loads(record.read_text())
    match what:
        case "empty" | "no record":
            record.unlink()
        case "newer":
            record.write_text(json.dumps({**known, "version": 99}))
        case "record of another mount path":
            record.write_text(json.dumps({**known, "mount_path": "/opt/m45943"}))
        case _:
            record.write_text(json.dumps({**known, "image": f"q.io/team/add@{B}"}))
    store = await opened(tmp_path)
    assert (store.stored, store.broken) == ({}, frozenset({folder(A)}))
    assert await store.collect(folder(A))
    assert not path.exists()


async def test_files_are_counted_once_after_reboot(tmp_path, monkeypatch):
    whole, cut = extracted(tmp_path), extracted(tmp_path, B)
    for path in (whole, cut):
        record = read_record(path)
        assert record is not None
        write_record(path, msgspec.structs.replace(record, boot="another run"))
    (cut / "cache" / "k.cubin").write_bytes(b"")
    store = await opened(tmp_path)
    assert set(store.stored) == {folder(A)}
    unable = Protection(ProtectionState.NOT_PERMITTED, "")
    monkeypatch.setattr("accelkit.cacheagent.disk.content.probe", lambda _: unable)
    await ContentChecks(store, Metrics(), on_change=lambda: None).check_all()
    monkeypatch.setattr("accelkit.kernelcache.extraction.record.measure", lambda path: pytest.fail(f"{path} counted"))
    renewed = read_record(whole)
    assert renewed.boot == read_boot_id()
    (cut / "complete.json").unlink()
    await store.refresh()
    assert set(store.stored) == {folder(A)}


async def test_links_are_replaced_atomically_with_relative_targets(tmp_path):
    extracted(tmp_path)
    store = await opened(tmp_path)
    path = tmp_path / "claims" / LINK
    store.move_link(LINK, folder(A))
    assert (str(path.readlink()), path.is_dir()) == (f"../{folder(A)}/cache", True)
    assert (await opened(tmp_path)).links == {LINK: folder(A)}
    store.move_link(LINK, WITHDRAWN)
    assert path.is_symlink()
    assert not path.exists()
    assert (await opened(tmp_path)).links == {LINK: WITHDRAWN}
    store.move_link(LINK, None)
    store.move_link(LINK, None)
    assert not path.is_symlink()
    assert [each.name for each in (tmp_path / "claims").iterdir()] == []


async def test_empty_folder_is_replaced_by_link_and_full_folder_is_kept(tmp_path):
    extracted(tmp_path)
    store = await opened(tmp_path)
    path = tmp_path / "claims" / LINK
    path.mkdir()
    store.move_link(LINK, folder(A))
    assert path.is_symlink()
    store.move_link(LINK, None)
    path.mkdir()
    (path / "somebodys").touch()
    with pytest.raises(OSError, match="not empty"):
        store.move_link(LINK, folder(A))
    assert (path / "somebodys").exists()


async def test_link_that_points_outside_store_counts_as_withdrawn(tmp_path):
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / LINK).symlink_to("/etc")
    (tmp_path / "claims" / "README").symlink_to(f"../{folder(A)}/cache")
    assert (await opened(tmp_path)).links == {LINK: WITHDRAWN}


async def test_leftovers_of_killed_extraction_are_deleted_unless_locked(tmp_path):
    for digest in (A, B):
        (tmp_path / f".{folder(digest)}.partial" / "layer-0").mkdir(parents=True)
    (tmp_path / f".{folder(A)}.displaced").mkdir()
    (tmp_path / ".somebodys.partial").mkdir()
    with (tmp_path / f".{folder(B)}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        await opened(tmp_path)
    left = {each.name for each in tmp_path.iterdir() if not each.name.endswith(".lock")}
    assert left == {f".{folder(B)}.partial", ".somebodys.partial", "claims", "namespaces"}


async def test_unlocked_lock_file_is_deleted_with_its_folder(tmp_path):
    path = extracted(tmp_path)
    stray, held, kept = (tmp_path / f".{name}.lock" for name in (folder(B), folder(C), folder(A)))
    stray.touch()
    kept.touch()
    with held.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store = await opened(tmp_path)
    assert (stray.exists(), held.exists(), kept.exists()) == (False, True, True)
    assert await store.collect(folder(A))
    assert (path.exists(), kept.exists()) == (False, False)


async def test_folder_locked_by_extraction_is_not_collected(tmp_path):
    path = extracted(tmp_path)
    store = await opened(tmp_path)
    with (tmp_path / f".{folder(A)}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not await store.collect(folder(A))
    assert path.exists()
    assert await store.collect(folder(A))
    assert store.stored == {}
    assert await store.collect(folder(A)), "what is gone is gone"


async def test_leftovers_that_cannot_be_deleted_do_not_block_start(tmp_path, monkeypatch, caplog):
    (tmp_path / f".{folder(A)}.partial").mkdir(parents=True)

    def refuse(_self):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("accelkit.kernelcache.extraction.folder.Place.clear_leftovers", refuse)
    await opened(tmp_path)
    assert "not deleted" in caplog.text


async def test_failed_write_of_uses_is_repeated(tmp_path, monkeypatch):
    extracted(tmp_path)
    store = await opened(tmp_path)
    uses = {"u": {"team/add": frozenset({folder(A)})}}

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(stores, "write_ledger", refuse)
    assert not store.remember_uses(uses)
    assert not store.remember_uses(uses), "they are not on the disk the second time either"
    monkeypatch.undo()
    assert store.remember_uses(uses)
    assert read_ledger(tmp_path).uses == uses


@pytest.mark.parametrize(
    ("content", "lost"),
    [
        (None, True),
        (b"", True),
        (b"{", True),
        (b'{"version": 2}', True),
        (b'{"uses": 1}', True),
        (b'{"more": 1}', True),
    ],
)
async def test_missing_or_damaged_ledger_is_marked_as_lost(tmp_path, content, lost):
    extracted(tmp_path)
    if content is not None:
        (tmp_path / ".agent.json").write_bytes(content)
    assert (await opened(tmp_path)).ledger.lost is lost


async def test_store_requires_folder_and_measures_disk_limits(tmp_path):
    assert not (await opened(tmp_path / "new")).ledger.lost
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="--folder"):
        await opened(tmp_path / "file")
    disk = (await opened(tmp_path, max_bytes=5, min_free_bytes=7)).measure_disk()
    assert (disk.max_bytes, disk.min_free_bytes) == (5, 7)
    assert disk.free_bytes > 0


def test_ledger_is_private_bounded_and_read_back(tmp_path):
    ledger = AgentState({"u": {"team/add": frozenset({folder(A), folder(B)})}}, {folder(A): {"p": 1.0}})
    write_ledger(tmp_path, ledger)
    assert read_ledger(tmp_path) == ledger
    assert (tmp_path / ".agent.json").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [".agent.json"]
    ledger = AgentState()
    for number in range(_MAX_POLICIES + 50):
        ledger.note_satisfied(folder(A), f"p{number}", float(number))
    assert len(ledger.satisfied[folder(A)]) == _MAX_POLICIES
    assert "p0" not in ledger.satisfied[folder(A)]
    ledger.discard([folder(B)])
    assert ledger.satisfied == {}
