"""A process of the laboratory counts as mended once it serves again."""

import asyncio
import contextlib
import socket

from faults import members
from faults.members import Member, probe_sockets
from support.waiting import until


async def is_serving():
    return True


async def test_killed_member_is_ready_after_restart(tmp_path, monkeypatch):
    monkeypatch.setattr(members, "RESTART_SECONDS", 0.0)
    member = Member("member", ["sleep", "60"], tmp_path, is_serving)
    keeping = asyncio.create_task(member.keep())
    try:
        await member.ready()
        await until(lambda: member.pid)
        first = member.pid
        member.kill()
        ready = asyncio.create_task(member.ready())
        await asyncio.wait([ready], timeout=0.3)
        assert not ready.done()
        member.allow()
        await ready
        await until(lambda: member.pid and member.pid != first)
    finally:
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping


async def test_probe_succeeds_only_when_all_sockets_have_listeners(tmp_path):
    paths = [tmp_path / "a.sock", tmp_path / "b.sock"]
    probe = probe_sockets(paths)
    with contextlib.ExitStack() as stack:
        for path in paths:
            assert not await probe()
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(str(path))
            listening.listen()
        assert await probe()
    # The files are left behind, as by a process that was killed.
    assert not await probe()
