"""Loop that discovers the cards of the node and publishes changes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.node.advertising import Advertising
from accelkit.node.card_states import CardStates
from accelkit.node.device_plugin.container_response import list_cdi_kinds
from accelkit.node.devices import DeviceIds
from accelkit.node.discovery import compute_network, compute_topology, place_beside, survey
from accelkit.node.health.card_errors import CardErrors
from accelkit.node.host_files import wait_for_host_files
from accelkit.node.kubelet import list_held_devices, list_pod_resources
from accelkit.node.labels import NodeLabels
from accelkit.node.library_report import LibraryReport
from accelkit.node.managed_resources import ManagedResourcesWatch
from accelkit.node.options import AgentOptions
from accelkit.node.own_node import OwnNode
from accelkit.node.pods import NodePods
from accelkit.node.reconciliation.reconciler import Reconciler
from accelkit.node.reconciliation.snapshot import group_devices_by_pod
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.profiles import load_usable_profiles

log = logging.getLogger(__name__)

# A card is reported as unhealthy after two bad surveys in a row, so a longer interval would delay the report.
_SURVEY_SECONDS = 10.0
# The interval of surveys while a change of the unit waits until pods terminate, which may take days.
_UNIT_SECONDS = 5.0
# The time for which an agent waits, after its start, for the record of managed resources.
_RECORD_SECONDS = 10.0


async def watch_cards(
    options: AgentOptions,
    *,
    dialect: Dialect,
    pods: NodePods,
    node: OwnNode,
    states: CardStates,
    errors: CardErrors,
    advertising: Advertising,
    libraries: LibraryReport,
    labels: NodeLabels,
    reconciler: Reconciler,
    found_any: asyncio.Event,
    managed: ManagedResourcesWatch | None,
    survey_now: asyncio.Event,
) -> None:
    """Discover the cards repeatedly; advertise changes of the cards or their unit to the kubelet and the cluster."""
    if options.await_host_files:
        await wait_for_host_files(options.root)
    # Wait for the pods, because the unit depends on them. The reflector logs errors, and retries until the API server
    # responds.
    await pods.reflector.synced.wait()
    if managed is not None:
        # Without the record, a restarted agent would temporarily withhold the offered resources.
        with suppress(TimeoutError):
            await asyncio.wait_for(managed.reflector.synced.wait(), _RECORD_SECONDS)
    in_use, known = _InUse(), load_usable_profiles()
    while True:
        settled = True
        try:
            found = await asyncio.to_thread(survey, options.root, known.profiles.values())
        except DevicePluginError as exc:
            # An unreadable card is not a missing card, so the advertised cards do not change.
            log.warning("%s", exc)
        else:
            problems = libraries.update(found.libraries)
            in_use = await _list_in_use(options.root, dialect, in_use)
            if await node.read():
                if not advertising.started and node.inventory is not None:
                    known.require(card.vendor for card in node.inventory.cards)
                    ids = DeviceIds(card.id for card in node.inventory.cards)
                    states.remember(node.inventory.cards, known.profiles, ids.count_by_card(in_use.of_all))
                await errors.clear_repaired_faults(found.cards)
                cards = await asyncio.to_thread(states.update, found.cards, node.cordon)
                cards = [each.oversubscribe(options.memory_factor) for each in cards]
                await errors.report_xids()
                topology = await asyncio.to_thread(compute_topology, options.root, cards)
                network = await asyncio.to_thread(compute_network, options.root, cards)
                cards = place_beside(cards, network)
                settled = await advertising.update(
                    cards,
                    topology=topology,
                    in_use=in_use.served,
                    uncounted=reconciler.uncounted,
                    library_problems=problems,
                    cdi=await asyncio.to_thread(list_cdi_kinds, options.root, cards),
                    network=network,
                )
                await labels.update([each.card for each in cards])
            if advertising.started:
                found_any.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(survey_now.wait(), _SURVEY_SECONDS if settled else _UNIT_SECONDS)
        survey_now.clear()


@dataclass(frozen=True)
class _InUse:
    """IDs of the allocated devices, for the served resources and for the resources of all dialects."""

    served: frozenset[str] = frozenset()
    of_all: frozenset[str] = frozenset()


async def _list_in_use(root: Path, dialect: Dialect, before: _InUse) -> _InUse:
    try:
        answer = await list_pod_resources(root)
    except DevicePluginError:
        # If the kubelet does not respond, no device is treated as released.
        return before
    devices = (each for containers in group_devices_by_pod(answer, dialect).values() for each in containers.values())
    served = (dialect.resources.memory, dialect.resources.cards)
    return _InUse(
        frozenset(each for name in served for ids in list_held_devices(answer, name).values() for each in ids),
        frozenset(device_id for each in devices for device_id in (*each.memory, *each.whole)),
    )
