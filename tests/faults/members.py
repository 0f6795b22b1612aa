"""A process of the laboratory: started again whenever it ends, as by a kubelet or systemd, and signalled by faults."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from accelkit.sandbox.processes import Child, identify

RESTART_SECONDS = 1.0
READY_SECONDS = 90.0

Probe = Callable[[], Awaitable[bool]]


class Member:
    """One process under a name; every start has a log of its own.

    Args:
        name: in logs, in the schedule and in the history.
        command: what is run; read again at each start, so that options may change.
        folder: of the logs.
        probe: says whether it serves; None where nothing can be asked.
        environment: variables that it gets beside ours.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str] | Callable[[], Sequence[str]],
        folder: Path,
        probe: Probe | None = None,
        *,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self._environment = environment
        self._command = command
        self._folder = folder
        self._probe = probe
        self._child: Child | None = None
        self._starts = 0
        # The start that has to come before it serves again.
        self._awaited = 1
        self._may_run = asyncio.Event()
        self._may_run.set()
        self._wanted = True
        self._ours = False
        # Exit codes of ends that no fault caused.
        self.unexpected_ends: list[int] = []

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    @property
    def log(self) -> Path:
        """The log of the latest start."""
        return self._folder / f"{self.name}.{self._starts}.log"

    async def keep(self) -> None:
        """Keep it running until cancelled; it is killed then."""
        try:
            while True:
                await self._may_run.wait()
                self._starts += 1
                command = self._command() if callable(self._command) else self._command
                self._child = Child(self.name, command, self.log, {**os.environ, **self._environment})
                await self._child.start()
                code = await self._child.wait()
                if not self._ours:
                    self.unexpected_ends.append(code)
                self._ours = False
                await asyncio.sleep(RESTART_SECONDS)
        finally:
            self.send(signal.SIGCONT)
            self.send(signal.SIGKILL)
            if self._child is not None:
                await self._child.wait()

    async def ready(self) -> None:
        """Wait until it serves; after a signal that ends it, until it is started again and serves.

        Raises:
            TimeoutError: it does not.
        """
        if self._probe is None:
            return
        try:
            async with asyncio.timeout(READY_SECONDS):
                while self._starts < self._awaited or not await self._probe():
                    await asyncio.sleep(0.1)
        except TimeoutError as exc:
            raise TimeoutError(f"{self.name} does not serve after {READY_SECONDS:.0f} s") from exc

    def send(self, number: signal.Signals) -> None:
        """Signal it, if it runs."""
        if (pid := self.pid) is not None and identify(pid) is not None:
            if number in (signal.SIGKILL, signal.SIGTERM):
                self._ours = True
                self._awaited = self._starts + 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it; it stays down until `allow`."""
        self._may_run.clear()
        self.send(number)

    async def restart(self) -> None:
        """End it in order, and wait until it serves again."""
        self.send(signal.SIGTERM)
        await self.ready()

    def allow(self) -> None:
        """Let it run again."""
        self._may_run.set()
        self.send(signal.SIGCONT)


def probe_sockets(paths: Sequence[Path]) -> Probe:
    """Return a probe that asks whether something listens on all of these unix sockets."""

    async def probe() -> bool:
        try:
            for path in paths:
                _, writer = await asyncio.open_unix_connection(path)
                writer.close()
        except OSError:
            return False
        return True

    return probe
