"""Functions that start and stop a sandbox and return its status, for `accelkit sandbox up`, `down` and `status`."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from accelkit.errors import SandboxError
from accelkit.sandbox.binaries import find_binaries, find_cache_dir
from accelkit.sandbox.layout import (
    ROOT_VARIABLE,
    Facts,
    SandboxOptions,
    SandboxPaths,
    check_owner,
    prepare,
    write_atomically,
)
from accelkit.sandbox.nodes import load_nodes
from accelkit.sandbox.processes import end_all, find_sandbox_processes, read_tail
from accelkit.sandbox.run_folder import remove_run_folder

_Report = Callable[[str], None]
# Supervisors continue to run after this process exits. These references prevent Python's ResourceWarning.
_supervisors: list[subprocess.Popen[bytes]] = []

_POLL_SECONDS = 0.2
_STOP_SECONDS = 30.0
_SWEEPS = 3
# The progress messages of the supervisor, in the format of accelkit.logs.
_PROGRESS = re.compile(r" INFO accelkit\.sandbox\.supervisor supervisor\.py:\d+ (.*)")


class ProcessView(msgspec.Struct, frozen=True):
    """A process of the sandbox. `memory_mib` is its resident memory in MiB."""

    name: str
    pid: int
    running: bool
    memory_mib: int


class SandboxStatus(msgspec.Struct, frozen=True):
    """The facts and processes of a sandbox. `running` is true if its supervisor is running."""

    running: bool
    facts: Facts
    processes: list[ProcessView]


def start_sandbox(
    paths: SandboxPaths, options: SandboxOptions, nodes: Path | None, report: _Report, environ: Mapping[str, str]
) -> Facts:
    """Start a sandbox and wait until it is ready. Do nothing if it is already running.

    Raises:
        SandboxError: the sandbox did not start. Its processes are stopped, but its folder and logs are not deleted.
    """
    present = paths.read_facts()
    if present is not None and present.state == "ready" and _is_supervisor(present.supervisor_pid, paths):
        report(f"the sandbox in {paths.root} is already running")
        return present
    # Check the nodes file first, because an invalid file must not stop the previous sandbox.
    load_nodes(nodes)
    check_owner(paths)
    if paths.root.exists():
        stop_sandbox(paths, lambda _: None)
    _check_port(options.extender_port)
    # Build in the foreground, so that the user sees the progress of the first build.
    find_binaries(environ, cache_dir=find_cache_dir(environ), report=report)
    prepare(paths)
    write_atomically(paths.options, msgspec.json.encode(options))
    if nodes is not None:
        write_atomically(paths.nodes_file, nodes.read_bytes())
    log = paths.root / "supervisor.log"
    with log.open("wb") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "accelkit", "sandbox", "supervise", "--root", str(paths.root)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**environ, ROOT_VARIABLE: str(paths.root)},
            start_new_session=True,
        )
    _supervisors.append(supervisor)
    try:
        facts = _await_ready(paths, supervisor, log, options.timeout, report)
    except (SandboxError, KeyboardInterrupt):
        _stop(paths, lambda _: None)
        raise
    report("the sandbox is ready")
    return facts


def stop_sandbox(paths: SandboxPaths, report: _Report) -> None:
    """Stop all processes of a sandbox and delete its folder, even if the sandbox failed to start.

    Raises:
        SandboxError: a process does not exit, the folder does not contain a sandbox, or the folder cannot be deleted.
    """
    processes = find_sandbox_processes(paths.root)
    if not paths.root.exists() and not processes:
        report(f"no sandbox exists in {paths.root}")
        return
    if not _is_sandbox(paths) and not processes:
        raise SandboxError(
            f"cannot delete {paths.root}: it does not contain the files of a sandbox",
            next_step="if it is a sandbox, delete the folder manually",
        )
    _stop(paths, report)
    if facts := paths.read_facts():
        remove_run_folder(Path(facts.run_folder))
    try:
        shutil.rmtree(paths.root)
    except FileNotFoundError:
        pass
    except OSError as exc:
        raise SandboxError(f"cannot delete {paths.root}: {exc}") from exc
    report(f"deleted the sandbox in {paths.root}")


def read_status(paths: SandboxPaths) -> SandboxStatus:
    """Return the status of a sandbox.

    Raises:
        SandboxError: the sandbox does not exist.
    """
    facts = paths.read_facts()
    if facts is None:
        if paths.facts.exists():
            raise SandboxError(
                f"cannot read {paths.facts}", next_step="run `accelkit sandbox down`, then `accelkit sandbox up`"
            )
        raise SandboxError(f"no sandbox exists in {paths.root}", next_step="run `accelkit sandbox up`")
    # Do not check only the PID, because the kernel may have reused it.
    own_pids = {process.pid for process in find_sandbox_processes(paths.root)}
    pids = {"supervisor": facts.supervisor_pid, **facts.processes}
    processes = [
        ProcessView(name, pid, pid in own_pids, _read_memory_mib(pid) if pid in own_pids else 0)
        for name, pid in pids.items()
    ]
    return SandboxStatus(facts.supervisor_pid in own_pids, facts, processes)


def _stop(paths: SandboxPaths, report: _Report) -> None:
    facts = paths.read_facts()
    supervisor = [
        process for process in find_sandbox_processes(paths.root) if facts and process.pid == facts.supervisor_pid
    ]
    if supervisor:
        report("stopping the supervisor and its processes")
        end_all(supervisor, patience_seconds=_STOP_SECONDS)
    # Stop the processes of a supervisor that was killed. Repeat this, because they may start more processes.
    for _ in range(_SWEEPS):
        if not (left := find_sandbox_processes(paths.root)):
            return
        end_all(left, patience_seconds=5.0)
    if left := find_sandbox_processes(paths.root):
        pids = ", ".join(str(process.pid) for process in left)
        raise SandboxError(
            f"cannot stop processes of the sandbox in {paths.root}: {pids}",
            next_step="run the command again as the owner of the processes",
        )


def _await_ready(
    paths: SandboxPaths, supervisor: subprocess.Popen[bytes], log: Path, seconds: float, report: _Report
) -> Facts:
    deadline = time.monotonic() + seconds
    reported = 0
    while True:
        # Poll the supervisor before its log is read, so that the last lines of the log are not missed if it exits.
        exited = supervisor.poll() is not None
        # Read the log up to the last line break, because the last line may be incomplete.
        lines = log.read_text(errors="replace").rpartition("\n")[0].splitlines()
        for line in lines[reported:]:
            if progress := _PROGRESS.search(line):
                report(progress[1])
        reported = len(lines)
        facts = paths.read_facts()
        if exited:
            cause = (
                facts.message if facts is not None and facts.message else f"its supervisor exited:\n{read_tail(log)}"
            )
            raise SandboxError(
                f"the sandbox did not start: {cause}",
                next_step=f"read the logs in {paths.root}; run `accelkit sandbox down` to delete them",
            )
        if facts is not None and facts.state == "ready":
            return facts
        if time.monotonic() > deadline:
            raise SandboxError(
                f"the sandbox was not ready in {seconds:.0f} s:\n{read_tail(log)}",
                next_step=f"read the logs in {paths.root}, or set a longer --timeout",
            )
        time.sleep(_POLL_SECONDS)


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as exc:
            raise SandboxError(
                f"cannot use port {port} for the extender: {exc.strerror}",
                next_step="choose another port with --extender-port or ACCELKIT_EXTENDER_PORT",
            ) from exc


def _is_supervisor(pid: int, paths: SandboxPaths) -> bool:
    return any(process.pid == pid for process in find_sandbox_processes(paths.root))


def _is_sandbox(paths: SandboxPaths) -> bool:
    # Deletion cannot be undone. Therefore, the folder must contain a file of a sandbox, all of its folders, or nothing
    # except its folders.
    if not paths.root.is_dir():
        return False
    if paths.options.exists() or paths.facts.exists() or all(folder.is_dir() for folder in paths.folders):
        return True
    return set(paths.root.iterdir()) <= set(paths.folders)


def _read_memory_mib(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20
