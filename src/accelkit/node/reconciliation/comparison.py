"""Compares what the kubelet shows with what is written, again and again, and has everybody told who needs it."""

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

# The kubelet tells nobody when devices change hands: asked after each allocation and each change of a pod, and now and
# then for what neither shows.
_RECONCILE_SECONDS = 15.0
_UNSETTLED_SECONDS = 1.0
_GATHER_SECONDS = 0.2
# What the watch shows of the pods may lack an event; then they are read anew, at most so often.
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
    """Ask the kubelet what containers hold, correct the assignments, and write what it shows for audits.

    Args:
        root: the host's root folder.
        node: the node's name.
        dialect: whose resource names the node advertises.
        pods: this node's pods.
        checkpoint: the kubelet's own record of devices.
        reconciler: corrects their assignments.
        monitor: looks at the processes on the cards.
        enforcer: holds pods to their memory.
        advertising: the cards as they are shown.
        writer: passes on what the kubelet shows.
        plugins: told what the kubelet shows; a pod that came and went between two allocations keeps no card.
        wake: set where there may be something new.
    """
    errors = ErrorReporter(log)
    reader = _DoubtfulPods(pods)
    while True:
        settled = False
        try:
            answer = await list_pod_resources(root)
        except DevicePluginError as exc:
            # Not answered is not empty: nothing is corrected.
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
            # Which cards the devices are of is known by the cards that are shown.
            if (cards := advertising.list_node_cards()) is not None:
                observed = build_allocations(node, cards.ids, held, monitor.strange_processes, enforcer.enforced)
                await writer.write(observed)
            if reconciler.doubtful or not settled:
                await reader.read()
        seconds = _RECONCILE_SECONDS if settled else _UNSETTLED_SECONDS
        try:
            async with asyncio.timeout(_READ_SECONDS if settled and reconciler.doubtful else seconds):
                await wake.wait()
        except TimeoutError:
            continue
        # Pods come in groups; one look does for all of them.
        await asyncio.sleep(_GATHER_SECONDS)
        wake.clear()


class _DoubtfulPods:
    """Reads this node's pods anew, at most every `_READ_SECONDS`.

    Args:
        pods: this node's pods.
        clock: seconds, never backwards.
    """

    def __init__(self, pods: NodePods, clock: Callable[[], float] = time.monotonic) -> None:
        self._pods = pods
        self._clock = clock
        self._read_at = -math.inf

    async def read(self) -> None:
        """Read them, unless they were read just now."""
        if self._clock() - self._read_at >= _READ_SECONDS:
            await self._pods.refresh()
            self._read_at = self._clock()
