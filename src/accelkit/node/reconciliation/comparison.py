"""Loop that compares the devices of containers with their assignments, and passes the result on."""

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

# The kubelet reports no changes of devices. So the agent queries it after each allocation and each change to a pod, and
# at this interval for all other changes.
_RECONCILE_SECONDS = 15.0
_UNSETTLED_SECONDS = 1.0
_GATHER_SECONDS = 0.2
# The pod watch may have lost an event. In that case, the pods are listed, at most once in this period.
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
    """Read from the kubelet which devices containers hold, correct the assignments, and write the result for audits.

    Args:
        root: the host's root folder.
        node: the name of the node.
        dialect: the dialect whose resources the node offers.
        pods: the pods of this node.
        checkpoint: the kubelet's checkpoint of devices.
        reconciler: corrects the assignments.
        monitor: observes the processes on the cards.
        enforcer: limits the pods to their memory.
        advertising: the cards that the plugins serve.
        writer: writes the observed allocations.
        plugins: the device plugins, which forget pods that started and ended between two allocations.
        wake: set when there may be a change.
    """
    errors = ErrorReporter(log)
    reader = _PodRefresher(pods)
    while True:
        settled = False
        try:
            answer = await list_pod_resources(root)
        except DevicePluginError as exc:
            # Without an answer, the devices are unknown. Unknown does not mean none, so nothing is corrected.
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
            # The device IDs name the cards that are advertised now.
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
        # Pods often change in groups. Wait, so that one comparison covers the whole group.
        await asyncio.sleep(_GATHER_SECONDS)
        wake.clear()


class _PodRefresher:
    """Reader that lists this node's pods again, at most every `_READ_SECONDS`.

    Args:
        pods: the pods of this node.
        clock: returns monotonic seconds.
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
