"""How the supervisor keeps a scheduler on its configuration, with a sleeping process as the scheduler."""

import asyncio
import os
import signal
from pathlib import Path

import msgspec

from accelkit.back_off import BackOff
from accelkit.sandbox import control_plane, supervisor
from accelkit.sandbox.binaries import Binaries
from accelkit.sandbox.layout import SandboxOptions, SandboxPaths, prepare
from accelkit.sandbox.processes import Child, identify
from accelkit.sandbox.supervisor import SchedulerState, Supervisor

DEADLINE = 30


class Kept:
    """A scheduler under a supervisor; `states` receives each state that is written."""

    def __init__(self, folder, monkeypatch, *, command=("sleep", "100")):
        self.paths = SandboxPaths(folder)
        prepare(self.paths)
        self.states = asyncio.Queue()
        self.paths.scheduler_config.write_text("first")
        programs = [Path("/bin/true")] * 4
        self.supervisor = Supervisor(self.paths, SandboxOptions(), Binaries(*programs, None, "PATH"))
        self.child = Child("kube-scheduler", command, self.paths.logs / "scheduler.log", dict(os.environ))

        def write(path, data, _mode=0o600):
            if path == self.paths.scheduler_state:
                self.states.put_nowait(msgspec.json.decode(data, type=SchedulerState))

        async def answers():
            return True

        monkeypatch.setattr(supervisor, "write_atomically", write)
        monkeypatch.setattr(supervisor, "_POLL_SECONDS", 0.01)
        monkeypatch.setattr(supervisor, "_BACK_OFF", BackOff(0.01, 0.02))
        monkeypatch.setattr(control_plane, "probe_http", lambda _: answers)

    async def __aenter__(self):
        self.task = asyncio.create_task(self.supervisor._keep_scheduler(self.child))
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.child.stop()

    async def follow(self, wanted):
        """The next state that is as wanted, and those before it."""
        seen = []
        async with asyncio.timeout(DEADLINE):
            while not seen or not wanted(seen[-1]):
                seen.append(await self.states.get())
        return seen[-1], seen[:-1]


async def test_changed_configuration_restarts_scheduler(tmp_path, monkeypatch):
    async with Kept(tmp_path, monkeypatch) as kept:
        first, _ = await kept.follow(lambda state: state.ready)
        kept.paths.scheduler_config.write_text("second")
        second, between = await kept.follow(lambda state: state.ready)
        assert second.config_sha256 != first.config_sha256
        assert second.restarts == first.restarts + 1
        assert identify(first.pid) is None
    taken_back = between[0]
    assert (taken_back.pid, taken_back.config_sha256, taken_back.ready) == (first.pid, first.config_sha256, False)


async def test_exited_scheduler_is_restarted_and_error_is_reported_until_ready(tmp_path, monkeypatch):
    async with Kept(tmp_path, monkeypatch) as kept:
        first, _ = await kept.follow(lambda state: state.ready)
        os.kill(first.pid, signal.SIGKILL)
        second, between = await kept.follow(lambda state: state.ready)
    assert [(state.ready, state.restarts) for state in between] == [(False, 0), (False, 1)]
    assert all(state.error for state in between)
    assert (second.restarts, second.error, second.config_sha256) == (1, "", first.config_sha256)


async def test_failing_scheduler_backs_off_until_configuration_changes(tmp_path, monkeypatch):
    async with Kept(tmp_path, monkeypatch, command=("sh", "-c", "exit 1")) as kept:
        monkeypatch.setattr(supervisor, "_BACK_OFF", BackOff(DEADLINE, DEADLINE))
        failed, _ = await kept.follow(lambda state: state.error)
        await asyncio.sleep(0.3)
        assert kept.states.empty()
        kept.paths.scheduler_config.write_text("second")
        again, _ = await kept.follow(lambda state: state.config_sha256 != failed.config_sha256)
    assert again.restarts == 1


async def test_scheduler_error_is_cleared_when_configuration_changes(tmp_path, monkeypatch):
    async with Kept(tmp_path, monkeypatch, command=("sh", "-c", "echo why >&2; exit 1")) as kept:
        failed, _ = await kept.follow(lambda state: state.error == "why")
        assert not failed.ready
        kept.paths.scheduler_config.write_text("second")
        again, _ = await kept.follow(lambda state: state.config_sha256 != failed.config_sha256)
    assert again.error == ""
