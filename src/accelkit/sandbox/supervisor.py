"""The supervisor: starts the control plane in order, keeps kube-scheduler on its configuration, ends all of it.

kube-scheduler is restarted whenever its configuration file changes, as a kubelet restarts a static pod; `state.json`
beside that file says which configuration the running one has. The simulated nodes are one process, started again
when it ends. Any other component that ends makes the sandbox fail as a whole.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from accelkit import __version__
from accelkit.errors import SandboxError
from accelkit.sandbox import control_plane
from accelkit.sandbox.binaries import Binaries
from accelkit.sandbox.layout import Facts, Options, SandboxPaths, write_atomically
from accelkit.sandbox.nodes import load_nodes
from accelkit.sandbox.processes import Child, tail

log = logging.getLogger(__name__)

IMAGE = f"accelkit.io/accelkit:{__version__}"

_START_SECONDS = 90.0
_POLL_SECONDS = 0.5
_BACK_OFF_SECONDS = (1.0, 10.0)


class SchedulerState(msgspec.Struct):
    """What kube-scheduler runs with. `ready` is true only for `config_sha256` and a process that answers."""

    pid: int
    config_sha256: str
    ready: bool
    restarts: int
    error: str = ""


class Supervisor:
    """One sandbox, from its first process to its last.

    Args:
        paths: where it lives; the folder is prepared.
        options: what `up` was told.
        binaries: the control plane's executables.
    """

    def __init__(self, paths: SandboxPaths, options: Options, binaries: Binaries) -> None:
        self._paths = paths
        self._options = options
        self._binaries = binaries
        self._ports = control_plane.Ports.free()
        self._children: list[Child] = []
        self._scheduler_serves = asyncio.Event()
        server = f"https://127.0.0.1:{self._ports.apiserver}"
        self._facts = Facts(
            image=IMAGE,
            extender_port=options.extender_port,
            supervisor_pid=os.getpid(),
            binaries=binaries.source,
            kubectl=str(binaries.kubectl or ""),
            kubeconfig=str(paths.kubeconfig("admin")),
            api_server=server,
            etcd=f"http://127.0.0.1:{self._ports.etcd}",
            scheduler_config=str(paths.scheduler_config),
            scheduler_state=str(paths.scheduler_state),
            scheduler_url=f"https://127.0.0.1:{self._ports.scheduler}",
            extender_url=f"http://127.0.0.1:{options.extender_port}",
        )

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, or until a component ends.

        Raises:
            SandboxError: something did not start, or ended.
            OSError: a file below the root cannot be written.
        """
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        stopping = asyncio.create_task(stop.wait())
        running = asyncio.create_task(self._run())
        try:
            await asyncio.wait({stopping, running}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        except (SandboxError, OSError) as exc:
            self._tell(state="failed", message=str(exc))
            raise
        finally:
            await _cancel(stopping, running)
            for child in reversed(self._children):
                try:
                    await child.stop()
                except SandboxError as exc:
                    # One that does not end must not keep the others running.
                    log.warning("%s", exc)
            log.info("sandbox stopped")

    async def _run(self) -> None:
        paths, ports, binaries = self._paths, self._ports, self._binaries
        # Read first: a mistake in the user's file should not cost the start of a control plane.
        nodes = load_nodes(paths.nodes_file if paths.nodes_file.exists() else None)
        self._facts.nodes = [node.name for node in nodes]
        self._tell()
        control_plane.write_certificates(paths, self._facts.api_server)
        write_atomically(paths.scheduler_config, control_plane.plain_scheduler_config(paths).encode(), 0o644)
        server = self._facts.api_server
        etcd = await self._start(control_plane.etcd(paths, binaries, ports), f"http://127.0.0.1:{ports.etcd}/readyz")
        apiserver = await self._start(
            control_plane.apiserver(paths, binaries, ports, self._options), f"{server}/readyz"
        )
        # The rest needs the API server alone, so it starts side by side.
        manager = control_plane.controller_manager(paths, binaries, ports)
        log.info("starting %s", manager.name)
        self._children.append(manager)
        await manager.start()
        scheduler = control_plane.scheduler(paths, binaries, ports)
        simulated = Child(
            "nodes",
            [sys.executable, "-m", "accelkit", "sandbox", "nodes", "--root", str(paths.root)],
            paths.logs / "nodes.log",
            control_plane.environment(paths),
        )
        self._children += [scheduler, simulated]
        tasks = [
            asyncio.create_task(self._keep_scheduler(scheduler)),
            asyncio.create_task(self._keep_nodes(simulated)),
            asyncio.create_task(self._await_ready(manager)),
            asyncio.create_task(self._watch([etcd, apiserver, manager])),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            await _cancel(*tasks)

    async def _await_ready(self, manager: Child) -> None:
        probe = control_plane.answers(f"https://127.0.0.1:{self._ports.controller_manager}/healthz")
        await manager.ready(probe, seconds=_START_SECONDS)
        # Without it the API server refuses every pod, and "ready" would be a promise too early.
        await manager.ready(control_plane.default_account_exists(self._paths), seconds=_START_SECONDS)
        await self._scheduler_serves.wait()
        self._tell(state="ready")

    async def _start(self, child: Child, url: str) -> Child:
        log.info("starting %s", child.name)
        self._children.append(child)
        await child.start()
        self._tell()
        authority = self._paths.pki / "ca.crt" if child.name == "kube-apiserver" else None
        await child.ready(control_plane.answers(url, authority), seconds=_START_SECONDS)
        return child

    async def _watch(self, children: Sequence[Child]) -> None:
        waits = {asyncio.create_task(child.wait()): child for child in children}
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        child = waits[done.pop()]
        raise SandboxError(f"{child.name} ended:\n{tail(child.log)}\nits log is {child.log}")

    async def _keep_nodes(self, child: Child) -> None:
        delay, high = _BACK_OFF_SECONDS
        while True:
            log.info("starting the simulated nodes")
            await child.start()
            self._tell()
            code = await child.wait()
            log.warning("the simulated nodes ended with %d, again in %.0f s:\n%s", code, delay, tail(child.log))
            await asyncio.sleep(delay)
            delay = min(high, 2 * delay)

    async def _keep_scheduler(self, child: Child) -> None:
        low, high = _BACK_OFF_SECONDS
        delay = low
        state = SchedulerState(pid=0, config_sha256="", ready=False, restarts=-1)
        while True:
            digest = self._config_digest()
            # What was wrong with another configuration is not said of this one.
            error = state.error if digest == state.config_sha256 else ""
            log.info("starting %s", child.name)
            await child.start()
            state = SchedulerState(child.pid, digest, ready=False, restarts=state.restarts + 1, error=error)
            self._tell_scheduler(state)
            changed = asyncio.create_task(self._config_changed(digest))
            try:
                error = await self._attend_scheduler(child, state, changed)
                state = msgspec.structs.replace(state, error=error)
                self._tell_scheduler(state)
                self._tell()
                if error:
                    log.warning("kube-scheduler failed, again in %.0f s or when its configuration changes", delay)
                    await asyncio.wait({changed}, timeout=delay)
                delay = low if changed.done() else min(high, 2 * delay)
            finally:
                await _cancel(changed)
            await child.stop()

    async def _attend_scheduler(self, child: Child, state: SchedulerState, changed: asyncio.Task[None]) -> str:
        """Follow kube-scheduler; return its last log lines once it fails, or "" once its configuration changes."""
        probe = control_plane.answers(self._facts.scheduler_url + "/readyz")
        starting = asyncio.create_task(child.ready(probe, seconds=_START_SECONDS))
        ended = asyncio.create_task(child.wait())
        try:
            await asyncio.wait({changed, starting}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and starting.exception() is None:
                self._tell_scheduler(msgspec.structs.replace(state, ready=True, error=""))
                self._tell()
                self._scheduler_serves.set()
                await asyncio.wait({changed, ended}, return_when=asyncio.FIRST_COMPLETED)
            if changed.done():
                return ""
            return tail(child.log) or f"kube-scheduler failed without a word in {child.log}"
        finally:
            await _cancel(starting, ended)

    async def _config_changed(self, digest: str) -> None:
        while self._config_digest() == digest:  # noqa: ASYNC110 - other programs write the file, no event tells
            await asyncio.sleep(_POLL_SECONDS)
        log.info("kube-scheduler's configuration has changed")

    def _config_digest(self) -> str:
        try:
            return hashlib.sha256(self._paths.scheduler_config.read_bytes()).hexdigest()
        except OSError:
            return ""

    def _tell_scheduler(self, state: SchedulerState) -> None:
        write_atomically(self._paths.scheduler_state, msgspec.json.encode(state))

    def _tell(self, *, state: str = "", message: str = "") -> None:
        self._facts.state = state or self._facts.state
        self._facts.message = message or self._facts.message
        self._facts.processes = {child.name: child.pid for child in self._children if child.running}
        write_atomically(self._paths.facts, msgspec.json.format(msgspec.json.encode(self._facts), indent=2))


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
