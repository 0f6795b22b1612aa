"""Switch of one host's kube-scheduler to accelkit's configuration and back, without data loss if interrupted.

The switch writes the record, accelkit's files and the launch file in this order, and then waits. Only the change of the
launch file, which is one rename, affects running processes. After an interruption, the next run reads the record and
finishes the switch. If kube-scheduler does not start again, the previous launch file is restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

import msgspec

from accelkit.errors import AccelkitError, ServiceError
from accelkit.scheduler.arguments import BACKUP_DIR, FOLDER
from accelkit.scheduler.host.host import FileStatus, Host, make_folders, sweep
from accelkit.scheduler.launch.plan import DesiredSettings, Launch
from accelkit.scheduler.switch.record import Record, build_original_path, compute_sha256, encode_record
from accelkit.scheduler.switch.survey import FileChange, Found, Intent, Survey, decode_text


class Waiter(Protocol):
    """Interface for waiting until kube-scheduler runs with its launch file."""

    def check(self, host: Host, text: str | None) -> None:
        """Verify that kube-scheduler is running before any file is changed; raise ServiceError if it is not running."""

    def restart(self, host: Host) -> None:
        """Apply a changed launch file, unless another component applies the file."""

    def wait(self, host: Host, text: str | None, marker: str | None) -> None:
        """Wait until kube-scheduler runs with the launch file `text`; raise ServiceError after the timeout.

        `marker` is Plan.marker; None if kube-scheduler must run with the previous state again.
        """


@dataclass(frozen=True)
class SwitchOutcome:
    """The changes that were made or would be made.

    Attributes:
        changes: changes by file; empty if the state is as desired.
        exact: for a removal, whether the recorded bytes, mode and owner are restored. False if other tools have changed
            the launch file since; in this case, only accelkit's changes were removed.
        problems: messages about issues that need attention.
    """

    changes: tuple[FileChange, ...] = ()
    exact: bool = True
    problems: tuple[str, ...] = ()


class Switch:
    """The kube-scheduler of one host.

    Args:
        host: the host.
        launch: the launch kind of kube-scheduler.
        waiter: the object that waits for kube-scheduler.
        backup_dir: the folder of the record; must not be the launch file's folder.
        folder: the folder of accelkit's files on the host.
        adopt_gcushare: whether to adopt a GCUShare installation, so that the manifest before that installation is
            recorded as the original.
    """

    def __init__(
        self,
        host: Host,
        launch: Launch,
        waiter: Waiter,
        *,
        backup_dir: str = BACKUP_DIR,
        folder: str = FOLDER,
        adopt_gcushare: bool = False,
    ) -> None:
        self._host = host
        self._launch = launch
        self._waiter = waiter
        self._backup_dir = backup_dir
        self._folder = folder
        self._survey = Survey(host, launch, backup_dir=backup_dir, folder=folder, adopt_gcushare=adopt_gcushare)

    def compare(self, desired: DesiredSettings) -> SwitchOutcome:
        """Return the changes that apply() would make.

        Raises:
            ConfigurationError: the host's files cannot be read, parsed or edited safely.
        """
        intent = self._survey.make_intent(self._survey.find(), desired)
        return SwitchOutcome(intent.changes, problems=intent.plan.problems)

    def check(self, desired: DesiredSettings) -> SwitchOutcome:
        """Return the differences; if there are none, verify that kube-scheduler runs with its launch file.

        Raises:
            ConfigurationError: same conditions as in compare().
            ServiceError: kube-scheduler is not running with its launch file.
        """
        intent = self._survey.make_intent(self._survey.find(), desired)
        if not intent.changes:
            self._waiter.wait(self._host, intent.plan.launch_text, intent.plan.marker)
        return SwitchOutcome(intent.changes, problems=intent.plan.problems)

    def apply(self, desired: DesiredSettings) -> SwitchOutcome:
        """Switch to accelkit's configuration; change only files that differ.

        Raises:
            ConfigurationError: the host's files cannot be read, parsed, edited safely or written.
            ServiceError: kube-scheduler was not running before, or is not running with the new configuration. In the
                latter case, the previous state is restored.
        """
        found = self._survey.find()
        intent = self._survey.make_intent(found, desired)
        outcome = SwitchOutcome(intent.changes, problems=intent.plan.problems)
        if not intent.changes and found.record is not None and not found.unfinished:
            self._waiter.wait(self._host, intent.plan.launch_text, intent.plan.marker)
            self._tidy(found.record, intent)
            return outcome
        if found.record is None and not (found.current is not None and self._launch.is_switched(found.current)):
            self._waiter.check(self._host, found.current)
        record = self._survey.build_record(found, intent)
        former = {path: (self._host.read_status(path), self._host.read(path)) for path in intent.plan.files}
        try:
            self._keep(record, intent.original, found.safe)
            self._put(intent, found.status, record)
            if intent.plan.launch_text != found.current or found.unfinished:
                self._waiter.restart(self._host)
            self._waiter.wait(self._host, intent.plan.launch_text, intent.plan.marker)
        except AccelkitError as exc:
            self._roll_back(found, record, former, exc)
            raise ServiceError(f"{exc.message}\nthe former state was restored", next_step=exc.next_step) from exc
        self._tidy(record, intent)
        return outcome

    def compare_removal(self) -> SwitchOutcome:
        """Return the changes that remove() would make.

        Raises:
            ConfigurationError: same conditions as in remove().
        """
        found = self._survey.find()
        target, exact = self._survey.find_former(found)
        paths = self._survey.list_our_files(found.record)
        gone = tuple(FileChange(path, self._host.read(path), None) for path in paths)
        return SwitchOutcome((*self._survey.compare_launch(found.current, target), *gone), exact)

    def remove(self) -> SwitchOutcome:
        """Restore the state before the installation of accelkit.

        Raises:
            ConfigurationError: the launch file cannot be parsed, the recorded original is damaged, or a file cannot be
                written.
            ServiceError: kube-scheduler does not start again. The record is retained, so that the next run can
                continue.
        """
        found = self._survey.find()
        outcome = self.compare_removal()
        target, exact = self._survey.find_former(found)
        if target != found.current:
            self._write_launch(target, found.record if exact else None, found.status)
        # If a record exists, a run that was interrupted before the restart may already have restored the launch file.
        if found.record is not None or target != found.current:
            self._waiter.restart(self._host)
            self._waiter.wait(self._host, target, None)
        for path in self._survey.list_our_files(found.record):
            self._host.remove(path)
        self._drop_records(found.record)
        return outcome

    def _keep(self, record: Record, *texts: str | None) -> None:
        """Write a record after the copies of launch files that it refers to."""
        uid, gid = self._owner(record)
        make_folders(self._host, self._backup_dir, mode="0700")
        sweep(self._host, self._backup_dir)
        for content in (text.encode() for text in texts if text is not None):
            place = build_original_path(self._backup_dir, compute_sha256(content))
            if self._host.read_status(place) is None:
                self._host.write(place, content, mode="0600", uid=uid, gid=gid)
        if self._host.read(self._survey.place) != encode_record(record):
            self._host.write(self._survey.place, encode_record(record), mode="0600", uid=uid, gid=gid)

    def _put(self, intent: Intent, status: FileStatus | None, record: Record) -> None:
        uid, gid = self._owner(record)
        launch_folder = str(PurePosixPath(self._launch.path).parent)
        if intent.plan.files:
            make_folders(self._host, self._folder, mode="0755")
            sweep(self._host, self._folder)
        make_folders(self._host, launch_folder, mode="0755")
        sweep(self._host, launch_folder)
        for path, planned in intent.plan.files.items():
            if self._host.read(path) != planned.content:
                owner = (uid, gid) if planned.owner is None else (planned.owner, gid)
                self._host.write(path, planned.content, mode=planned.mode, uid=owner[0], gid=owner[1])
        text = decode_text(self._host.read(self._launch.path), self._launch.path)
        if text != intent.plan.launch_text:
            self._write_launch(intent.plan.launch_text, None, status)

    def _write_launch(self, text: str | None, record: Record | None, status: FileStatus | None) -> None:
        path = self._launch.path
        if text is None:
            self._host.remove(path)
            return
        mode, uid, gid = "0644", 0, 0
        if record is not None and record.existed:
            mode, uid, gid = record.mode, record.uid, record.gid
        elif status is not None:
            mode, uid, gid = status.mode, status.uid, status.gid
        self._host.write(path, text.encode(), mode=mode, uid=uid, gid=gid)

    def _owner(self, record: Record) -> tuple[int, int]:
        # The owner of the launch file is root on a real host, or the user of an embedded host.
        return (record.uid, record.gid) if record.existed else (0, 0)

    def _roll_back(
        self,
        found: Found,
        record: Record,
        former: Mapping[str, tuple[FileStatus | None, bytes | None]],
        why: AccelkitError,
    ) -> None:
        try:
            if decode_text(self._host.read(self._launch.path), self._launch.path) != found.safe:
                self._write_launch(found.safe, None, found.status)
                self._waiter.restart(self._host)
                self._waiter.wait(self._host, found.safe, None)
            if found.safe is None or not self._launch.is_switched(found.safe):
                for path in self._survey.list_our_files(record):
                    self._host.remove(path)
                self._drop_records(record)
                return
            for path, (status, content) in former.items():
                if content is None or status is None:
                    self._host.remove(path)
                else:
                    self._host.write(path, content, mode=status.mode, uid=status.uid, gid=status.gid)
            if found.record is None:
                self._drop_records(record)
            else:
                settled = {"written_sha256": compute_sha256(found.safe.encode()), "previous": None}
                self._keep(msgspec.structs.replace(found.record, **settled), found.recorded)
                self._drop_lost_originals()
        except AccelkitError as exc:
            raise ServiceError(
                f"{why.message}; and the former configuration could not be restored: {exc.message}",
                next_step=f"check {self._launch.path} on the host; its original is in {self._backup_dir}",
            ) from exc

    def _tidy(self, record: Record, intent: Intent) -> None:
        stale = [path for path in record.files if path not in intent.plan.files]
        if record.previous is not None:
            # Update the record before any file that the previous launch file needs is deleted.
            record = msgspec.structs.replace(record, previous=None)
            self._keep(record, intent.original)
        for path in (*stale, *intent.abandoned):
            self._host.remove(path)
        if stale:
            self._keep(msgspec.structs.replace(record, files=tuple(sorted(intent.plan.files))), intent.original)
        self._drop_lost_originals()

    def _drop_records(self, record: Record | None) -> None:
        """Delete the record, originals and folders. The files that only the record lists must already be deleted."""
        for folder in (self._folder, self._backup_dir, str(PurePosixPath(self._launch.path).parent)):
            sweep(self._host, folder)
        folders = (self._folder,) if record is None else record.folders
        for folder in reversed(folders):
            self._host.remove_empty_folder(folder)
        self._host.remove(self._survey.place)
        self._drop_lost_originals()
        for folder in reversed(self._survey.list_own_folders() if record is None else folders):
            self._host.remove_empty_folder(folder)

    def _drop_lost_originals(self) -> None:
        for place in self._survey.list_lost_originals():
            self._host.remove(place)
