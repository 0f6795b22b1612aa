"""Read-only comparison of a host's current state with the desired state."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from accelkit.decoding import prepare
from accelkit.errors import ConfigurationError
from accelkit.scheduler.host.host import UNFINISHED_PREFIX, FileStatus, Host, list_missing_folders
from accelkit.scheduler.launch.manifest import StaticPod
from accelkit.scheduler.launch.plan import DesiredSettings, Launch, LaunchPlan
from accelkit.scheduler.switch.gcushare import find_leftovers
from accelkit.scheduler.switch.record import (
    ORIGINAL_SUFFIX,
    RECORD_SUFFIX,
    Record,
    build_original_path,
    build_record_path,
    compute_sha256,
    decode_record,
)

_OUR_NAMES: Final = re.compile(r"(scheduler|extender-ca)-[0-9a-f]{12}\.(yaml|json|crt)|client\.(crt|key)")

prepare(Record)


@dataclass(frozen=True)
class FileChange:
    """The content of a file before and after a change; None if the file does not exist."""

    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True)
class Found:
    """Current state of a host.

    Attributes:
        status: the status of the launch file.
        current: the text of the launch file.
        record: the record of the launch file.
        recorded: the text of the original launch file.
        safe: the last launch file that kube-scheduler is known to have run with: the current file, or the file before
            an interrupted switch.
    """

    status: FileStatus | None
    current: str | None
    record: Record | None
    recorded: str | None
    safe: str | None

    @property
    def unfinished(self) -> bool:
        """Whether a switch was interrupted, so that its result is unknown."""
        return self.record is not None and self.record.previous is not None


@dataclass(frozen=True)
class Intent:
    """Desired state of a host, the original to record, and the files of other tools to remove."""

    plan: LaunchPlan
    original: str | None
    changes: tuple[FileChange, ...]
    abandoned: tuple[str, ...] = ()


class Survey:
    """Comparison of one host's current and desired state, based on its launch file; for the arguments, see Switch."""

    def __init__(self, host: Host, launch: Launch, *, backup_dir: str, folder: str, adopt_gcushare: bool) -> None:
        self._host = host
        self._launch = launch
        self._backup_dir = backup_dir
        self._folder = folder
        self._adopt = adopt_gcushare
        self.place = build_record_path(backup_dir, launch.path)

    def find(self) -> Found:
        """Return the state of the launch file and its record.

        Raises:
            ConfigurationError: the launch file or its record cannot be read or used.
        """
        path = self._launch.path
        status = self._host.read_status(path)
        if status is not None and status.kind != "file":
            raise ConfigurationError(
                f"cannot use {path}: it is a {status.kind}, not a file", next_step="specify the file itself"
            )
        content = self._host.read(path)
        record_bytes = self._host.read(self.place)
        record = None if record_bytes is None else decode_record(record_bytes, self.place)
        current = decode_text(content, path)
        recorded = self._kept(record.sha256) if record is not None and record.existed else None
        safe = current
        if record is not None and record.previous is not None and _digest(current) == record.written_sha256:
            safe = self._kept(record.previous) if record.previous else None
        return Found(status, current, record, recorded, safe)

    def _kept(self, sha256: str) -> str | None:
        place = build_original_path(self._backup_dir, sha256)
        content = self._host.read(place)
        if content is None or compute_sha256(content) != sha256:
            raise ConfigurationError(
                f"the recorded original {place} of {self._launch.path} is {'lost' if content is None else 'damaged'}",
                next_step=f"restore it from a backup, or delete {self.place} to continue without it",
            )
        return decode_text(content, place)

    def make_intent(self, found: Found, desired: DesiredSettings) -> Intent:
        """Return the desired state, including the plan and the original to record.

        Raises:
            ConfigurationError: a file cannot be read, parsed or edited safely.
        """
        base, recorded = found.current, found.recorded
        abandoned: tuple[str, ...] = ()
        switched = base is not None and self._launch.is_switched(base)
        if self._adopt and base is not None and isinstance(self._launch, StaticPod):
            left = find_leftovers(base, self._host.read, self._launch.path)
            if left is not None:
                abandoned = left.files
                base = base if switched else left.original
        plan = self._launch.plan(base, recorded, self._host.read, desired)
        changes = list(self.compare_launch(found.current, plan.launch_text))
        for path, planned in plan.files.items():
            before = self._host.read(path)
            if before != planned.content:
                changes.append(FileChange(path, before, planned.content))
        changes += [FileChange(path, self._host.read(path), None) for path in abandoned]
        return Intent(plan, self._original(found, base), tuple(changes), abandoned)

    def _original(self, found: Found, base: str | None) -> str | None:
        """Return the text to record as the original: the current launch file without accelkit's changes."""
        if found.current is None or base is None:
            return None
        current = compute_sha256(found.current.encode())
        if found.record is not None and current in {found.record.written_sha256, found.record.sha256}:
            return found.recorded
        return self._launch.unswitch(base, found.recorded) if self._launch.is_switched(base) else base

    def compare_launch(self, before: str | None, after: str | None) -> Iterable[FileChange]:
        """Yield the change of the launch file, if the file changes."""
        if before != after:
            yield FileChange(self._launch.path, _bytes(before), _bytes(after))

    def build_record(self, found: Found, intent: Intent) -> Record:
        """Return the record to write before the first change."""
        old = found.record
        folders = (
            *self.list_own_folders(),
            *list_missing_folders(self._host, self._folder if intent.plan.files else "/"),
            *self._list_made_for_us(),
            *list_missing_folders(self._host, str(PurePosixPath(self._launch.path).parent)),
        )
        common: dict[str, Any] = {
            "path": self._launch.path,
            "written_sha256": compute_sha256(intent.plan.launch_text.encode()),
            "previous": _digest(found.safe),
            "files": tuple(sorted({*intent.plan.files, *(old.files if old else ())})),
            "folders": tuple(dict.fromkeys((*(old.folders if old else ()), *folders))),
        }
        if intent.original is None:
            return msgspec.convert({**common, "existed": False}, Record)
        sha256 = compute_sha256(intent.original.encode())
        if old is not None and old.sha256 == sha256:
            owner = {"mode": old.mode, "uid": old.uid, "gid": old.gid}
        else:
            status = found.status or FileStatus("file", "0644", 0, 0)
            owner = {"mode": status.mode, "uid": status.uid, "gid": status.gid}
        return msgspec.convert({**common, **owner, "existed": True, "sha256": sha256}, Record)

    def list_own_folders(self) -> list[str]:
        """Return accelkit's folders among the backup folder and its parents, the outermost first.

        Missing folders belong to accelkit. Existing folders belong to accelkit if they do not contain other files and
        either are the backup folder or have accelkit in their name. A run that was interrupted before it wrote a record
        may have created such folders.
        """
        ours: list[str] = []
        for folder in (PurePosixPath(self._backup_dir), *PurePosixPath(self._backup_dir).parents):
            place = str(folder)
            names = self._host.list_names(place)
            if place == self._backup_dir and not any(_is_record(name) for name in names):
                names = [name for name in names if not _is_leftover(name)]
            mine = self._host.read_status(place) is None or place == self._backup_dir or "accelkit" in folder.name
            if not mine or {str(folder / name) for name in names} - set(ours):
                break
            ours.insert(0, place)
        return ours

    def _list_made_for_us(self) -> list[str]:
        """Return the folder of accelkit's files if it is empty, because a mount of the keeper's pod has created it."""
        there = self._host.read_status(self._folder) is not None
        empty = there and "accelkit" in PurePosixPath(self._folder).name and not self._host.list_names(self._folder)
        return [self._folder] if empty else []

    def list_lost_originals(self) -> list[str]:
        """Return the stored originals that no record refers to, because of an interrupted run or changed files."""
        names = self._host.list_names(self._backup_dir)
        kept = set()
        for name in names:
            if _is_record(name):
                place = str(PurePosixPath(self._backup_dir, name))
                record = decode_record(self._host.read(place) or b"", place)
                kept |= {f"{sha256}{ORIGINAL_SUFFIX}" for sha256 in (record.sha256, record.previous) if sha256}
        lost = (name for name in names if name.endswith(ORIGINAL_SUFFIX) and name not in kept)
        return [str(PurePosixPath(self._backup_dir, name)) for name in lost]

    def find_former(self, found: Found) -> tuple[str | None, bool]:
        """Return the launch file without accelkit's changes, and whether it is the recorded original."""
        record, current = found.record, found.current
        if current is None:
            return None, record is None or not record.existed
        sha256 = compute_sha256(current.encode())
        if record is not None and sha256 == record.written_sha256:
            return found.recorded, True
        if record is not None and record.existed and sha256 == record.sha256:
            return current, True
        if not self._launch.is_switched(current):
            return current, record is None
        return self._launch.unswitch(current, found.recorded), False

    def list_our_files(self, record: Record | None) -> list[str]:
        """Return accelkit's files on the host, except the launch file and the record."""
        inside = [name for name in self._host.list_names(self._folder) if _OUR_NAMES.fullmatch(name)]
        paths = {str(PurePosixPath(self._folder, name)) for name in inside} | set(record.files if record else ())
        return sorted(path for path in paths if self._host.read_status(path) is not None)


def _is_record(name: str) -> bool:
    return name.endswith(RECORD_SUFFIX) and not name.startswith(UNFINISHED_PREFIX)


def _is_leftover(name: str) -> bool:
    return name.startswith(UNFINISHED_PREFIX) or name.endswith(ORIGINAL_SUFFIX)


def _digest(text: str | None) -> str:
    return "" if text is None else compute_sha256(text.encode())


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def decode_text(content: bytes | None, path: str) -> str | None:
    """Return the text of a file.

    Raises:
        ConfigurationError: the file is not UTF-8.
    """
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError as exc:
        raise ConfigurationError(f"{path} is not UTF-8 text: {exc}") from exc
