"""A simulated node and its kubelet, from registration to shutdown.

The root folder of the node is its `/`. It contains the sockets, the pod logs and the list of cards. The kubelet stores
all other state on the API server or in the checkpoint of the device manager.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from accelkit.errors import ApiError, SandboxError
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import patch_or_create
from accelkit.kube.paths import NODES, build_leases_path, build_node_path
from accelkit.sandbox.kubelet.devices.checkpoint import CHECKPOINT_NAME, load_checkpoint
from accelkit.sandbox.kubelet.devices.device_manager import DeviceManager
from accelkit.sandbox.kubelet.devices.device_plugins import PluginServer
from accelkit.sandbox.kubelet.devices.pod_resources import PodResourcesServer
from accelkit.sandbox.kubelet.node_status import NodeStatusBuilder, build_node, build_node_labels
from accelkit.sandbox.kubelet.pods.containers import NodeContext
from accelkit.sandbox.kubelet.pods.credentials import read_certificate_authority
from accelkit.sandbox.kubelet.pods.pods import Pods
from accelkit.sandbox.nodes import NodeSpec, encode_cards

__all__ = ["run_node"]

log = logging.getLogger(__name__)

_STATUS_SECONDS = 10.0
_STATUS_RETRY_SECONDS = 1.0
_LEASE_SECONDS = 10.0
_LEASE_DURATION_SECONDS = 40
_REGISTRATION_SECONDS = 120.0
_LEASES = build_leases_path("kube-node-lease")
# Folders that exist on every host, so that manifests can mount them.
_FOLDERS = (
    *("dev", "etc/accelkit", "proc", "usr", "var/log/pods"),
    *("sys/bus", "sys/class", "sys/devices", "sys/module", "sys/fs/cgroup"),
)


async def run_node(
    spec: NodeSpec,
    *,
    root: Path,
    api: ApiClient,
    image: str,
    plugin_grace_seconds: float,
    admin_kubeconfig: Path,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Run a node until cancelled. Cancellation stops its processes, but does not delete its API objects.

    Args:
        spec: the node.
        root: the folder that is the node's `/`. It is created if it does not exist.
        api: a client with all permissions.
        image: the image whose containers run as processes. The tag of the image is ignored.
        plugin_grace_seconds: the time before a resource without a device plugin is removed. A real kubelet uses 300.
        admin_kubeconfig: the kubeconfig file that contains the CA of the API server.
        environ: the environment variables. A few of these variables are passed to the processes.

    Raises:
        SandboxError: the node cannot register, or cannot listen on its sockets.
    """
    changed = asyncio.Event()
    # The seed is the node's name, so that every run chooses the same devices among equal devices.
    chance = random.Random(spec.name)  # noqa: S311 - no secret
    manager = DeviceManager(clock=time.monotonic, grace_seconds=plugin_grace_seconds, chance=chance)
    node = NodeContext(
        name=spec.name,
        root=root,
        image=image,
        api=api,
        manager=manager,
        authority=read_certificate_authority(admin_kubeconfig),
        environ=environ,
        now=_now,
    )
    plugin_folder = root / "var/lib/kubelet/device-plugins"
    _prepare(root, spec, plugin_folder)
    load_checkpoint(plugin_folder / CHECKPOINT_NAME, manager)
    pods = Pods(node, plugin_folder / CHECKPOINT_NAME)
    plugins = PluginServer(plugin_folder, manager, on_change=changed.set)
    pod_resources = PodResourcesServer(root / "var/lib/kubelet/pod-resources", manager, active_pods=pods.list_active)
    await _register(api, spec)
    try:
        await pod_resources.start()
        await plugins.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(_keep_status(api, spec, manager, changed), name=f"status {spec.name}")
            group.create_task(_keep_lease(api, spec.name), name=f"lease {spec.name}")
            group.create_task(pods.run(), name=f"pods {spec.name}")
    finally:
        await plugins.stop()
        await pod_resources.stop()


def _prepare(root: Path, spec: NodeSpec, plugin_folder: Path) -> None:
    try:
        for folder in _FOLDERS:
            (root / folder).mkdir(parents=True, exist_ok=True)
        plugin_folder.mkdir(parents=True, exist_ok=True)
        (root / "etc/accelkit/simulated-cards.json").write_bytes(encode_cards(spec))
    except OSError as exc:
        raise SandboxError(f"cannot create the root of {spec.name} in {root}: {exc}") from exc


async def _register(api: ApiClient, spec: NodeSpec) -> None:
    try:
        async with asyncio.timeout(_REGISTRATION_SECONDS):
            await _retry_until_done(lambda: _create_or_update(api, spec), action=f"registration of {spec.name}")
    except TimeoutError as exc:
        raise SandboxError(f"cannot register {spec.name} at {api.server}: timed out") from exc


async def _create_or_update(api: ApiClient, spec: NodeSpec) -> None:
    labels = {"metadata": {"labels": build_node_labels(spec)}}
    await patch_or_create(api, NODES, spec.name, labels, build_node(spec))


async def _keep_status(api: ApiClient, spec: NodeSpec, manager: DeviceManager, changed: asyncio.Event) -> None:
    status = NodeStatusBuilder(spec, now=_now, clock=time.monotonic)
    while True:
        changed.clear()
        patch = status.build_patch(manager.collect_resources())
        try:
            await api.patch(f"{build_node_path(spec.name)}/status", patch)
        except ApiError as exc:
            log.warning("status not written node=%s reason=%s", spec.name, exc)
            await asyncio.sleep(_STATUS_RETRY_SECONDS)
            continue
        status.acknowledge(patch)
        expiry = manager.find_next_expiry()
        delay = _STATUS_SECONDS if expiry is None else min(_STATUS_SECONDS, max(0.0, expiry - time.monotonic()))
        try:
            async with asyncio.timeout(delay):
                await changed.wait()
        except TimeoutError:
            continue


async def _keep_lease(api: ApiClient, name: str) -> None:
    while True:
        await _retry_until_done(lambda: _renew(api, name), action=f"renewal of the lease of {name}")
        await asyncio.sleep(_LEASE_SECONDS)


async def _renew(api: ApiClient, name: str) -> None:
    renewed = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": name, "leaseDurationSeconds": _LEASE_DURATION_SECONDS, "renewTime": renewed}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
    await patch_or_create(api, _LEASES, name, {"spec": spec}, lease)


async def _retry_until_done(attempt: Callable[[], Awaitable[None]], *, action: str) -> None:
    while True:
        try:
            await attempt()
        except ApiError as exc:
            log.warning("%s failed, retrying in %.0f s: %s", action, _STATUS_RETRY_SECONDS, exc)
            await asyncio.sleep(_STATUS_RETRY_SECONDS)
        else:
            return


def _now() -> datetime:
    # metav1.Time has a resolution of one second.
    return datetime.now(UTC).replace(microsecond=0)
