"""Processes are started, watched and ended, and nothing that is not ours is ever signalled."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from accelkit.errors import SandboxError
from accelkit.sandbox.layout import ROOT_VARIABLE
from accelkit.sandbox.processes import Child, Identity, end_all, find_sandbox_processes, identify, read_tail, send

DEADLINE = 60

# Says that it is there, then outlives SIGTERM, and so does a process of its own.
STUBBORN = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
own = os.fork()
if own:
    print(own, flush=True)
while True:
    signal.pause()
"""


def python(text, *arguments):
    return [sys.executable, "-IS", "-c", text, *map(str, arguments)]


@pytest.fixture
def child(tmp_path):
    def make(*command, **environ):
        return Child("it", command, tmp_path / "it.log", {"PATH": os.environ["PATH"], **environ})

    return make


@contextmanager
def echo(**environ):
    """A process that repeats what it is told: alive for certain, if it answers."""
    with subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"], **environ}
    ) as process:
        assert answers(process)
        yield process


def answers(process):
    process.stdin.write(b"?\n")
    process.stdin.flush()
    return process.stdout.readline() == b"?\n"


def await_end(pid):
    """Waits for the end of any process, a child or not."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(DEADLINE * 1000))
    finally:
        os.close(descriptor)


def logged(child):
    async def probe():
        return child.log.read_text().endswith("\n")

    return probe


async def never():
    return False


async def always():
    return True


async def test_process_log_is_truncated_on_start(child):
    it = child("sh", "-c", "echo out; echo err >&2")
    for _ in range(2):
        await it.start()
        assert await asyncio.wait_for(it.wait(), DEADLINE) == 0
    assert sorted(it.log.read_text().split()) == ["err", "out"]


async def test_executable_that_cannot_start_is_reported(child):
    with pytest.raises(SandboxError, match="cannot start /no/such"):
        await child("/no/such").start()


async def test_exit_during_startup_is_detected_immediately_with_log_tail(child):
    it = child("sh", "-c", "echo a bad option; exit 1")
    await it.start()
    begun = time.monotonic()
    with pytest.raises(SandboxError, match="it exited during startup:\na bad option"):
        await it.wait_until_ready(never, seconds=DEADLINE)
    assert time.monotonic() - begun < DEADLINE / 2


async def test_exited_process_is_not_ready_despite_successful_probe(child):
    it = child("true")
    await it.start()
    await asyncio.wait_for(it.wait(), DEADLINE)
    with pytest.raises(SandboxError, match="exited during startup"):
        await it.wait_until_ready(always, seconds=DEADLINE)


async def test_process_that_never_becomes_ready_times_out(child):
    it = child("sleep", "1000")
    await it.start()
    try:
        with pytest.raises(SandboxError, match="was not ready in 0 s"):
            await it.wait_until_ready(never, seconds=0.2)
    finally:
        await it.stop()
    assert not it.running


async def test_stop_kills_whole_session_of_unresponsive_process(child):
    it = child(*python(STUBBORN))
    await it.start()
    await it.wait_until_ready(logged(it), seconds=DEADLINE)
    own = int(it.log.read_text())
    await it.stop(patience_seconds=0.1)
    assert await asyncio.wait_for(it.wait(), DEADLINE) == -signal.SIGKILL
    assert await asyncio.to_thread(await_end, own)


async def test_stop_of_exited_or_unstarted_process_does_nothing(child):
    it = child("true")
    await it.stop()
    await it.start()
    await asyncio.wait_for(it.wait(), DEADLINE)
    await it.stop()


def test_child_exits_when_supervisor_is_killed(tmp_path):
    text = f"""
import asyncio
from pathlib import Path
from accelkit.sandbox.processes import Child

async def main():
    child = Child("it", ["sleep", "1000"], Path({str(tmp_path / "log")!r}), {{"PATH": {os.environ["PATH"]!r}}})
    await child.start()
    print(child.pid, flush=True)
    await child.wait()

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as supervisor:
        pid = int(supervisor.stdout.readline())
        assert identify(pid) is not None
        supervisor.kill()
    assert await_end(pid)


def test_process_is_identified_by_pid_and_start_time():
    own = identify(os.getpid())
    assert own == identify(os.getpid())
    assert own.started > identify(1).started


def test_exited_process_has_no_identity_before_it_is_reaped():
    process = subprocess.Popen(["true"])
    assert await_end(process.pid)
    assert identify(process.pid) is None
    process.wait(DEADLINE)
    assert identify(process.pid) is None


def test_reused_pid_is_never_signalled():
    with echo() as process:
        before = replace(identify(process.pid), started=1)
        send(before, signal.SIGKILL)
        end_all([before], patience_seconds=DEADLINE)
        assert answers(process)


def test_signal_to_missing_process_is_ignored():
    process = subprocess.Popen(["true"])
    process.wait(DEADLINE)
    send(Identity(process.pid, 1), signal.SIGKILL)


def test_end_all_kills_processes_after_grace_period():
    with subprocess.Popen(python(STUBBORN), stdout=subprocess.PIPE) as process:
        own = int(process.stdout.readline())
        end_all([identify(process.pid), identify(own)], patience_seconds=0.1)
        assert process.wait(DEADLINE) == -signal.SIGKILL
        assert await_end(own)


def test_processes_are_found_by_root_in_their_environment(tmp_path):
    with echo(**{ROOT_VARIABLE: str(tmp_path)}) as ours, echo(**{ROOT_VARIABLE: f"{tmp_path}-other"}):
        assert find_sandbox_processes(tmp_path) == [identify(ours.pid)]


def test_calling_process_and_its_ancestors_are_not_sandbox_processes(tmp_path):
    text = f"""
from pathlib import Path
from accelkit.sandbox.processes import find_sandbox_processes
print(len(find_sandbox_processes(Path({str(tmp_path)!r}))))
"""
    # The shell has something left to do, so it stays as the parent.
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", text]
    answer = subprocess.run(
        command,
        env={**os.environ, ROOT_VARIABLE: str(tmp_path)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=DEADLINE,
    )
    assert answer.stdout == b"0\n"


def test_read_tail_returns_last_lines_or_empty_string(tmp_path):
    log = tmp_path / "log"
    assert read_tail(log) == ""
    log.write_bytes(b"a\nb\nc\xff\n")
    assert read_tail(log, 2) == "b\nc\N{REPLACEMENT CHARACTER}"
