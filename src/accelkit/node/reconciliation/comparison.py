"""Loop that compares the allocated devices of containers with their assignments, and publishes the result."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.logs import ErrorReporter
from accelkit.node.advertising import Advertising
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.enforcement.enforcer import Enforcer
from accelkit.node.kubelet import list_pod_resources
from accelkit.node.pods import NodePods
from accelkit.node.processes.monitor import ProcessMonitor
from accelkit.node.reconciliation.kubelet_checkpoint import KubeletCheckpoint
from accelkit.node.reconciliation.observed_config_map import AllocationsWriter, build_allocations
from accelkit.node.reconciliation.reconciler import Reconciler
from accelkit.node.reconciliation.snapshot import group_devices_by_pod
from accelkit.vendors.dialect import Dialect

log = logging.getLogger(__name__)

# The kubelet does not notify clients of changes to devices. The agent queries it after each allocation and each change
# to a pod, and also at this interval to detect other changes.
_RECONCILE_SECONDS = 15.0
_UNSETTLED_SECONDS = 1.0
_GATHER_SECONDS = 0.2
# If the pod watch may have missed an event, the agent lists the pods, at most once in this interval.
_READ_SECONDS = 5.0


async def compare_with_kubelet(
    root: Path,
    node: str,
    *,
    dialect: Dialect,
    pods: NodePods,
    checkpoint: KubeletCheckpoint,
    reconciler: Reconciler,
    monitor: ProcessMonitor,
    enforcer: Enforcer,
    advertising: Advertising,
    writer: AllocationsWriter,
    plugins: Sequence[DevicePlugin],
    wake: asyncio.Event,
) -> None:
    """Repeatedly read the allocated devices from the kubelet, correct the assignments, and write the result for audits.

    Args:
        root: the host's root folder.
        node: the name of the node.
        dialect: the dialect whose resources the node offers.
        pods: the pods of this node.
        checkpoint: the kubelet's checkpoint of devices.
        reconciler: the reconciler, which corrects the assignments.
        monitor: the monitor of the processes on the cards.
        enforcer: the enforcer, which limits the pods to their memory.
        advertising: the advertiser of the cards that the plugins serve.
        writer: the writer of the observed allocations.
        plugins: the device plugins, which must discard pods that started and terminated between two allocations.
        wake: the event that is set when something may have changed.
    """
    errors = ErrorReporter(log)
    reader = _PodRefresher(pods)
    while True:
        settled = False
        try:
            answer = await list_pod_resources(root)
        except DevicePluginError as exc:
            # Without a response, the devices are unknown, so assignments are not corrected.
            errors.report(str(exc), f"{exc}; assignments are not compared")
        else:
            errors.clear()
            pods.confirm({(each.namespace, each.name) for each in answer.pod_resources})
            for plugin in plugins:
                plugin.settle(answer)
            held = group_devices_by_pod(answer, dialect, pods.list_assigned_names(), pods.node_cards.ids)
            settled = await reconciler.reconcile(held, await asyncio.to_thread(checkpoint.read))
            await enforcer.enforce(advertising.list_found_cards())
            await monitor.observe(advertising.list_found_cards())
            # The device IDs belong to the cards that are currently advertised.
            if (cards := advertising.list_node_cards()) is not None:
                observed = build_allocations(node, cards.ids, held, monitor.strange_processes, enforcer.enforced)
                await writer.write(observed)
            if reconciler.pods_outdated or not settled:
                await reader.read()
        seconds = _RECONCILE_SECONDS if settled else _UNSETTLED_SECONDS
        try:
            async with asyncio.timeout(_READ_SECONDS if settled and reconciler.pods_outdated else seconds):
                await wake.wait()
        except TimeoutError:
            continue
        # Several pods often change together. Wait so that one comparison covers all of these changes.
        await asyncio.sleep(_GATHER_SECONDS)
        wake.clear()


class _PodRefresher:
    """Reader that lists this node's pods again, at most every `_READ_SECONDS`.

    Args:
        pods: the pods of this node.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, pods: NodePods, clock: Callable[[], float] = time.monotonic) -> None:
        self._pods = pods
        self._clock = clock
        self._read_at = -math.inf

    async def read(self) -> None:
        """List the pods, unless they were listed recently."""
        if self._clock() - self._read_at >= _READ_SECONDS:
            await self._pods.refresh()
            self._read_at = self._clock()
