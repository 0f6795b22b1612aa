"""The supervisor, which starts, monitors and stops the control plane and the simulated nodes.

When the configuration file of kube-scheduler changes, the supervisor restarts kube-scheduler, as a kubelet restarts a
static pod. `state.json` in the same folder contains the digest of the current configuration. All simulated nodes run in
one process. The supervisor restarts this process and kube-scheduler when they exit. If any other component exits, the
whole sandbox fails.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sys
from contextlib import ExitStack
from itertools import count

import msgspec

from accelkit import __version__
from accelkit.back_off import BackOff
from accelkit.errors import SandboxError, raise_first
from accelkit.sandbox import control_plane
from accelkit.sandbox.binaries import Binaries
from accelkit.sandbox.certificates import write_certificates
from accelkit.sandbox.layout import Facts, SandboxOptions, SandboxPaths, SandboxState, write_atomically
from accelkit.sandbox.nodes import load_nodes
from accelkit.sandbox.processes import Child, read_tail
from accelkit.sandbox.run_folder import open_run_folder
from accelkit.stop_signals import on_stop_signal

log = logging.getLogger(__name__)

IMAGE = f"accelkit.io/accelkit:{__version__}"

_START_SECONDS = 90.0
_POLL_SECONDS = 0.5
_BACK_OFF = BackOff(1.0, 10.0)


class SchedulerState(msgspec.Struct):
    """The state of kube-scheduler. `ready` is true if kube-scheduler is ready and uses the config `config_sha256`."""

    pid: int
    config_sha256: str
    ready: bool
    restarts: int
    error: str = ""


class Supervisor:
    """The supervisor of one sandbox.

    Args:
        paths: the prepared folder of the sandbox.
        options: the options of `up`.
        binaries: the executables of the control plane.
    """

    def __init__(self, paths: SandboxPaths, options: SandboxOptions, binaries: Binaries) -> None:
        self._paths = paths
        self._options = options
        self._binaries = binaries
        self._ports = control_plane.Ports.choose_free()
        self._children: list[Child] = []
        self._exit_stack = ExitStack()
        self._scheduler_ready = asyncio.Event()
        self._scheduler = SchedulerState(pid=0, config_sha256="", ready=False, restarts=-1)
        server = f"https://127.0.0.1:{self._ports.apiserver}"
        self._facts = Facts(
            image=IMAGE,
            extender_port=options.extender_port,
            supervisor_pid=os.getpid(),
            binaries=binaries.source,
            kubectl=str(binaries.kubectl or ""),
            kubeconfig=str(paths.build_kubeconfig_path("admin")),
            api_server=server,
            etcd=f"http://127.0.0.1:{self._ports.etcd}",
            scheduler_config=str(paths.scheduler_config),
            scheduler_state=str(paths.scheduler_state),
            scheduler_url=f"https://127.0.0.1:{self._ports.scheduler}",
            extender_url=f"http://127.0.0.1:{options.extender_port}",
        )

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, or until a component exits.

        Raises:
            SandboxError: a component did not start, or has exited.
            OSError: a file below the root folder cannot be written.
        """
        running = asyncio.create_task(self._run())
        on_stop_signal(running.cancel)
        try:
            await running
        except asyncio.CancelledError:
            log.info("stopping the sandbox")
        except (SandboxError, OSError) as exc:
            self._write_facts(state="failed", message=str(exc))
            raise
        finally:
            for child in reversed(self._children):
                try:
                    await child.stop()
                except SandboxError as exc:
                    # If a process does not exit, the other processes must still be stopped.
                    log.warning("%s", exc)
            self._exit_stack.close()
            log.info("sandbox stopped")

    async def _run(self) -> None:
        paths, ports, binaries = self._paths, self._ports, self._binaries
        # Read the nodes first, so that an invalid nodes file causes an error before the control plane starts.
        nodes = load_nodes(paths.nodes_file if paths.nodes_file.exists() else None)
        self._facts.nodes = [node.name for node in nodes]
        self._facts.run_folder = str(self._exit_stack.enter_context(open_run_folder(paths, self._facts.nodes)))
        self._write_facts()
        write_certificates(paths, self._facts.api_server)
        write_atomically(paths.scheduler_config, control_plane.render_scheduler_config(paths).encode(), 0o644)
        server = self._facts.api_server
        etcd = await self._start(
            control_plane.make_etcd(paths, binaries, ports), f"http://127.0.0.1:{ports.etcd}/readyz"
        )
        apiserver = await self._start(
            control_plane.make_apiserver(paths, binaries, ports, self._options), f"{server}/readyz"
        )
        # The other components depend only on the API server, so they are started in parallel.
        manager = control_plane.make_controller_manager(paths, binaries, ports)
        log.info("starting %s", manager.name)
        self._children.append(manager)
        await manager.start()
        scheduler = control_plane.make_scheduler(paths, binaries, ports)
        simulated = Child(
            "nodes",
            [sys.executable, "-m", "accelkit", "sandbox", "nodes", "--root", str(paths.root)],
            paths.logs / "nodes.log",
            control_plane.build_environment(paths),
        )
        self._children += [scheduler, simulated]
        with raise_first(SandboxError, OSError):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_scheduler(scheduler))
                group.create_task(self._keep_nodes(simulated))
                group.create_task(self._await_ready(manager))
                for child in (etcd, apiserver, manager):
                    group.create_task(self._watch(child))

    async def _await_ready(self, manager: Child) -> None:
        probe = control_plane.probe_http(f"https://127.0.0.1:{self._ports.controller_manager}/healthz")
        await manager.wait_until_ready(probe, seconds=_START_SECONDS)
        # The API server rejects all pods until this service account exists.
        await manager.wait_until_ready(control_plane.probe_default_account(self._paths), seconds=_START_SECONDS)
        await self._scheduler_ready.wait()
        self._write_facts(state="ready")

    async def _start(self, child: Child, url: str) -> Child:
        log.info("starting %s", child.name)
        self._children.append(child)
        await child.start()
        self._write_facts()
        authority = self._paths.pki / "ca.crt" if child.name == "kube-apiserver" else None
        await child.wait_until_ready(control_plane.probe_http(url, authority), seconds=_START_SECONDS)
        return child

    async def _watch(self, child: Child) -> None:
        await child.wait()
        raise SandboxError(f"{child.name} exited:\n{read_tail(child.log)}\nThe log is {child.log}")

    async def _keep_nodes(self, child: Child) -> None:
        for failures in count(1):
            log.info("starting the simulated nodes")
            await child.start()
            self._write_facts()
            code = await child.wait()
            delay = _BACK_OFF.compute(failures)
            log.warning("simulated nodes exited with %d, restarting in %.0f s:\n%s", code, delay, read_tail(child.log))
            await asyncio.sleep(delay)

    async def _keep_scheduler(self, child: Child) -> None:
        while True:
            digest = self._compute_config_digest()
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self._serve_scheduler(child, digest))
                await self._wait_for_change(digest)
                serving.cancel()
            # Clear `ready` before the old process is stopped.
            self._write_scheduler_state(ready=False, error="")
            self._write_facts()
            await child.stop()

    async def _serve_scheduler(self, child: Child, digest: str | None) -> None:
        """Run kube-scheduler with a fixed configuration until cancelled, and restart it after each failure."""
        probe = control_plane.probe_http(self._facts.scheduler_url + "/readyz")
        for failures in count(1):
            log.info("starting %s", child.name)
            pid = await child.start()
            restarts = self._scheduler.restarts + 1
            self._write_scheduler_state(pid=pid, config_sha256=digest or "", ready=False, restarts=restarts)
            try:
                await child.wait_until_ready(probe, seconds=_START_SECONDS)
            except SandboxError:
                # The log of kube-scheduler contains the reason. The log is read below.
                pass
            else:
                self._write_scheduler_state(ready=True, error="")
                self._write_facts()
                self._scheduler_ready.set()
                await child.wait()
            error = read_tail(child.log) or f"kube-scheduler failed, and its log {child.log} is empty"
            self._write_scheduler_state(ready=False, error=error)
            self._write_facts()
            delay = _BACK_OFF.compute(failures)
            log.warning("kube-scheduler failed, restarting in %.0f s or when its configuration changes", delay)
            await asyncio.sleep(delay)
            await child.stop()

    async def _wait_for_change(self, digest: str | None) -> None:
        while self._compute_config_digest() == digest:  # noqa: ASYNC110 - other programs write the file, without an event
            await asyncio.sleep(_POLL_SECONDS)
        log.info("kube-scheduler's configuration has changed")

    def _compute_config_digest(self) -> str | None:
        """Return the digest of kube-scheduler's configuration file; None if the file cannot be read."""
        try:
            return hashlib.sha256(self._paths.scheduler_config.read_bytes()).hexdigest()
        except OSError:
            return None

    def _write_scheduler_state(self, **changes: object) -> None:
        self._scheduler = msgspec.structs.replace(self._scheduler, **changes)
        write_atomically(self._paths.scheduler_state, msgspec.json.encode(self._scheduler))

    def _write_facts(self, *, state: SandboxState | None = None, message: str | None = None) -> None:
        """Update the state and the message if they are set, and write the facts for other programs."""
        self._facts.state = state or self._facts.state
        self._facts.message = message or self._facts.message
        self._facts.processes = {child.name: child.pid for child in self._children if child.pid is not None}
        write_atomically(self._paths.facts, msgspec.json.format(msgspec.json.encode(self._facts), indent=2))
