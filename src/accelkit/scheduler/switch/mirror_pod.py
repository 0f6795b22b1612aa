"""Functions that wait for a kube-scheduler in a static pod, based on the mirror pod that the kubelet creates.

Only the kubelet has the state of a static pod. After a change of the manifest, the kubelet creates a new mirror pod
with the command of the new manifest. Therefore, the status of a mirror pod with this command belongs to this manifest.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection
from accelkit.kube.paths import build_pod_path
from accelkit.model.keys import CONFIG_HASH_ANNOTATION, MIRROR_ANNOTATION
from accelkit.model.object_meta import ObjectMeta
from accelkit.scheduler.configuration.command_line import find_option_value
from accelkit.scheduler.host.host import Host
from accelkit.scheduler.launch.pod_manifest import PodManifest
from accelkit.scheduler.switch.waiters import DEADLINE_SECONDS, LOG_LINES, POLL_SECONDS

_PORT: Final = 10259
# A kube-scheduler with an invalid configuration exits immediately. If it still runs after this time, it has accepted
# its configuration.
_STEADY_SECONDS: Final = 4.0
_RESTARTS: Final = 2


class _Container(msgspec.Struct):
    name: str
    command: list[str] = []
    args: list[str] = []


class _Spec(msgspec.Struct):
    containers: list[_Container] = []


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    container_id: str = msgspec.field(name="containerID", default="")
    state: dict[str, Any] = {}
    last_state: dict[str, Any] = {}


class _Status(msgspec.Struct, rename="camel"):
    container_statuses: list[_ContainerStatus] = []


class _Pod(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_pod = msgspec.json.Decoder(_Pod)


@dataclass
class _Watch:
    """State of one container during a wait."""

    problem: str | None = "its status is not known yet"
    hopeless: bool = False
    restarts: int | None = None
    container_id: str | None = None
    steady_since: float = 0.0


@dataclass(frozen=True)
class MirrorPod:
    """The mirror pod on a node. Implements Waiter.

    Attributes:
        connection: the connection to the API server.
        node: the node whose kubelet runs the static pod.
        path: the path of the manifest, for error messages.
        timeout_seconds: the timeout of each wait.
    """

    connection: Connection
    node: str
    path: str
    timeout_seconds: float = DEADLINE_SECONDS

    def check(self, host: Host, text: str | None) -> None:
        """Verify that kube-scheduler is running; see Waiter."""
        try:
            self.wait(host, text, None)
        except ServiceError as exc:
            raise ServiceError(f"{exc.message}; its manifest was not changed", next_step=exc.next_step) from exc

    def restart(self, host: Host) -> None:
        """Do nothing, because the kubelet watches the folder of manifests."""

    def wait(self, host: Host, text: str | None, marker: str | None) -> None:  # noqa: ARG002 - the whole command is compared
        """Wait until kube-scheduler runs with this manifest; see Waiter."""
        if text is not None:
            asyncio.run(self._wait(host, PodManifest(text, self.path)))

    async def _wait(self, host: Host, manifest: PodManifest) -> None:
        document = manifest.root
        name = f"{document['metadata']['name']}-{self.node}"
        path = build_pod_path(document["metadata"].get("namespace", "default"), name)
        commands = {
            str(each["name"]): [str(word) for word in (*(each.get("command") or ()), *(each.get("args") or ()))]
            for each in document["spec"]["containers"]
        }
        watch, deadline = _Watch(), time.monotonic() + self.timeout_seconds
        async with ApiClient(self.connection) as api:
            while True:
                await self._observe(api, path, commands, watch)
                if not watch.problem and time.monotonic() - watch.steady_since >= _STEADY_SECONDS:
                    if self._healthy(host, manifest):
                        return
                    watch.problem = "its /healthz does not respond"
                if watch.hopeless or time.monotonic() > deadline:
                    log = await _read_log(api, path, next(iter(commands)))
                    last_words = "" if log is None else f"; the end of its log:\n{log}"
                    problem = watch.problem or f"it has not run for {_STEADY_SECONDS:.0f} s yet"
                    waited = "" if watch.hopeless else f" after {self.timeout_seconds:.0f} s"
                    raise ServiceError(
                        f"kube-scheduler on {self.node} does not run with {self.path}{waited}: {problem}{last_words}",
                        next_step=f"run `kubectl -n kube-system describe pod {name}`",
                    )
                await asyncio.sleep(POLL_SECONDS)

    async def _observe(self, api: ApiClient, path: str, commands: dict[str, list[str]], watch: _Watch) -> None:
        watch.hopeless = False
        try:
            pod = _pod.decode(await api.get(path))
        except ApiError as exc:
            watch.problem = (
                "the kubelet has not created its mirror pod" if exc.not_found else f"cannot read its mirror pod: {exc}"
            )
            return
        annotations = pod.metadata.annotations or {}
        commands_of_pod = {each.name: [*each.command, *each.args] for each in pod.spec.containers}
        if any(commands_of_pod.get(name) != words for name, words in commands.items()) or annotations.get(
            MIRROR_ANNOTATION
        ) != annotations.get(CONFIG_HASH_ANNOTATION):
            watch.problem = "the kubelet still runs the former manifest"
            return
        statuses = {each.name: each for each in pod.status.container_statuses}
        restarts = sum(each.restart_count for each in statuses.values())
        # kube-scheduler may have restarted earlier for another reason. Only its current state depends on the file.
        watch.restarts = restarts if watch.restarts is None else watch.restarts
        for name in commands:
            watch.problem = _problem(statuses.get(name))
            if watch.problem:
                # Read the log while kube-scheduler is not running, because the log then ends with the reason.
                watch.hopeless = restarts - watch.restarts >= _RESTARTS and not _runs(statuses.get(name))
                return
        container_id = statuses[next(iter(commands))].container_id
        if container_id != watch.container_id:
            watch.container_id, watch.steady_since = container_id, time.monotonic()

    def _healthy(self, host: Host, manifest: PodManifest) -> bool:
        options = manifest.list_options()
        port = find_option_value(options, "secure-port") or str(_PORT)
        address = find_option_value(options, "bind-address") or "127.0.0.1"
        if port == "0":
            return True
        address = "127.0.0.1" if address in {"0.0.0.0", "::"} else address  # noqa: S104 - the address of a request, not of a server
        # On a host without curl or wget, successful kubelet probes are sufficient.
        return host.probe_url(f"https://{f'[{address}]' if ':' in address else address}:{port}/healthz") is not False


def _problem(status: _ContainerStatus | None) -> str | None:
    """Return the problem of a container; None if there is no problem."""
    if status is None:
        return "the kubelet has not started it yet"
    waiting, ended = status.state.get("waiting"), status.last_state.get("terminated") or {}
    if not _runs(status):
        reason = (waiting or status.state.get("terminated") or {}).get("reason", "not running")
        code = f" (exit code {ended['exitCode']})" if "exitCode" in ended else ""
        return f"its container is in the state {reason}{code}"
    if status.started is False or not status.ready:
        return "its probes have not succeeded yet"
    return None


def _runs(status: _ContainerStatus | None) -> bool:
    return status is not None and "running" in status.state


async def _read_log(api: ApiClient, path: str, container: str) -> str | None:
    """Return the last lines of a container's log or, if it is empty, of the previous log; None if both are empty."""
    for former in ("false", "true"):
        query = {"tailLines": str(LOG_LINES), "container": container, "previous": former}
        try:
            text = (await api.get(f"{path}/log", query=query)).decode(errors="replace").strip()
        except ApiError:
            continue
        if text:
            return text
    return None
