"""A container with accelkit's image that runs as a process on this machine.

The process has the same arguments, environment variables (including pod fields) and mounts as in a container on a real
node. The mounts are links in a folder (see `volumes`).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accelkit.errors import SandboxError
from accelkit.kube.connection import SERVICE_ACCOUNT, SERVICE_ACCOUNT_VARIABLE
from accelkit.sandbox.kubelet.pods.volumes import ContainerRoot
from accelkit.sandbox.kubelet.wire import Container, EnvVar, Pod

__all__ = ["NODE_ADDRESS", "ContainerProcess", "ProcessSpec", "build_process_spec", "strip_tag"]

# All simulated nodes and pods share the loopback address of this machine.
NODE_ADDRESS = "127.0.0.1"

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")
_MAP_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_INHERITED = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "ACCELKIT_SANDBOX_ROOT")
_KILL_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """A command and all of its environment variables."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def strip_tag(image: str) -> str:
    """Return an image name without the tag and digest, for example `a.io:5000/b` for `a.io:5000/b:1@sha256:…`."""
    name = image.partition("@")[0]
    last = name.rpartition("/")[2]
    return name[: len(name) - len(last) + last.find(":")] if ":" in last else name


def build_process_spec(
    pod: Pod,
    container: Container,
    *,
    root: ContainerRoot,
    environ: Mapping[str, str],
    plugin_environment: Mapping[str, str],
    api_environment: Mapping[str, str],
) -> ProcessSpec:
    """Return the command and environment of a container.

    Args:
        pod: the pod, bound to its node.
        container: the container in this pod.
        root: the folder that is the container's `/` and that contains its mounts.
        environ: the environment of the kubelet. A few of its variables are passed to the process.
        plugin_environment: the container's environment variables from device plugins.
        api_environment: the environment variables with the address of the API server.

    Raises:
        SandboxError: the container needs a feature that the sandbox does not support.
    """
    if container.command not in ([], ["accelkit"]):
        raise SandboxError(
            f"container {container.name}: the command of accelkit's image is accelkit, not {container.command}"
        )
    variables = dict(plugin_environment)
    for variable in container.env:
        variables[variable.name] = root.translate(_resolve_value(pod, variable, variables))
    arguments = [root.translate(_expand(argument, variables)) for argument in container.args]
    inherited = {name: environ[name] for name in _INHERITED if name in environ}
    return ProcessSpec(
        command=(sys.executable, "-m", "accelkit", *arguments),
        environment={
            **inherited,
            **api_environment,
            SERVICE_ACCOUNT_VARIABLE: root.place(str(SERVICE_ACCOUNT)),
            **variables,
        },
    )


class ContainerProcess:
    """A running process and its child processes. Use `start` to create an instance."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, spec: ProcessSpec, *, log: Path) -> ContainerProcess:
        """Start the command and append its output to `log`.

        Raises:
            SandboxError: the operating system cannot start the command.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        # If the kubelet is killed, its processes must exit too, because they occupy ports.
        prefix = ("setpriv", "--pdeathsig", "TERM", "--") if shutil.which("setpriv") else ()
        try:
            with log.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *prefix,
                    *spec.command,
                    env=spec.environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        except OSError as exc:
            raise SandboxError(f"cannot start {spec.command[0]}: {exc}") from exc
        return cls(process)

    async def wait(self) -> int:
        """Wait until the process exits; return its exit code, or 128 + n if it was terminated by signal n."""
        code = await self._process.wait()
        return 128 - code if code < 0 else code

    async def stop(self, grace_seconds: float) -> int:
        """Send SIGTERM to the process, and SIGKILL after the grace period; return its exit code."""
        try:
            self._signal(signal.SIGTERM)
            async with asyncio.timeout(grace_seconds):
                return await self.wait()
        except TimeoutError:
            pass
        finally:
            self._signal(signal.SIGKILL)
        async with asyncio.timeout(_KILL_SECONDS):
            return await self.wait()

    def _signal(self, number: signal.Signals) -> None:
        # Send the signal to the whole session, because a service may have started worker processes.
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return


def _resolve_value(pod: Pod, variable: EnvVar, defined: Mapping[str, str]) -> str:
    if variable.value_from is None:
        return _expand(variable.value, defined)
    if variable.value_from.field_ref is None:
        raise SandboxError(f"cannot set variable {variable.name}: the sandbox supports only values and pod fields")
    return _read_field(pod, variable.value_from.field_ref.field_path)


def _read_field(pod: Pod, path: str) -> str:
    fields = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": NODE_ADDRESS,
        "status.podIP": NODE_ADDRESS,
    }
    if path in fields:
        return fields[path]
    if (found := _MAP_FIELD.fullmatch(path)) is not None:
        entries = pod.metadata.labels if found[1] == "labels" else pod.metadata.annotations
        return (entries or {}).get(found[2], "")
    raise SandboxError(f"the sandbox does not support the field {path}")


def _expand(text: str, defined: Mapping[str, str]) -> str:
    def replacement(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$"
        return defined.get(found[1], found[0])

    return _REFERENCE.sub(replacement, text)
