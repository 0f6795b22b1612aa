"""Snapshot of this node's pods: their assignments, and the devices that their kubelet reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from accelkit.errors import AssignmentError, RequestError
from accelkit.model.assignment import Assignment, Share
from accelkit.model.request import Kind
from accelkit.node._proto import podresources_pb2 as resources_api
from accelkit.node.devices import DeviceIds
from accelkit.node.kubelet import list_held_devices
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePod
from accelkit.node.reconciliation.corrections import ObservedPod
from accelkit.node.reconciliation.kubelet_checkpoint import RecordedDevices
from accelkit.node.reconciliation.observed_assignment import ContainerDevices, observe_assignment
from accelkit.node.reconciliation.uncounted import Account, count_uncounted
from accelkit.placement.constraints import find_broken_constraints
from accelkit.vendors.checked_assignments import check_assignment
from accelkit.vendors.counted_dialects import list_device_resources
from accelkit.vendors.counted_requests import CardContainer, parse_amount
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.pod_reading import CardPod

PodName = tuple[str, str]  # namespace, name


def group_devices_by_pod(
    answer: resources_api.ListPodResourcesResponse,
    dialect: Dialect,
    assigned: Collection[PodName] = (),
    ids: DeviceIds | None = None,
) -> dict[PodName, dict[str, ContainerDevices]]:
    """Return the devices of accelkit that the kubelet reports, by pod and container; omit pods without devices.

    Args:
        answer: the response from the kubelet's pod resources API.
        dialect: the dialect whose resources the node offers; resources of all other dialects are also included.
        assigned: pods that are included even if another device plugin may have allocated their devices.
        ids: the device IDs of the node's cards, which are used to exclude devices of other plugins; None if they are
            unknown.
    """
    resources = list_device_resources(dialect)

    def is_ours(name: str, pod: PodName, device_ids: Sequence[str], *, whole: bool) -> bool:
        if name in (dialect.resources.memory, dialect.resources.cards) or pod in assigned:
            return True
        return name not in resources.ambiguous and (
            ids is None or all(ids.owns(each, whole=whole) for each in device_ids)
        )

    found: dict[PodName, dict[str, ContainerDevices]] = defaultdict(dict)
    for whole, names in ((False, resources.memory), (True, resources.cards)):
        for name in names:
            for (namespace, pod, container), held in sorted(list_held_devices(answer, name).items()):
                if is_ours(name, (namespace, pod), held, whole=whole):
                    before = found[namespace, pod].get(container, ContainerDevices([], []))
                    found[namespace, pod][container] = before.add(held, whole=whole)
    return dict(found)


@dataclass(frozen=True, slots=True)
class KubeletView:
    """The devices that, according to the kubelet, are allocated to containers.

    Attributes:
        by_name: the devices from the pod resources API, which omits plain init containers.
        recorded: the devices from the kubelet's checkpoint; empty if the checkpoint cannot be read.
    """

    by_name: Mapping[PodName, Mapping[str, ContainerDevices]]
    recorded: RecordedDevices

    def find_devices(self, each: NodePod, ids: DeviceIds) -> Mapping[str, ContainerDevices]:
        """Return the devices of a pod's containers, as reported by the kubelet or inferred from other containers."""
        reported = self.by_name.get((each.pod.ref.namespace, each.pod.ref.name), {})
        recorded = self.recorded.get(each.cgroup_uid, {})
        init = {name: recorded[name] for name, kind in each.pod.order if kind is Kind.INIT and name in recorded}
        return {**_infer_init(each.pod, reported, ids), **init, **reported}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The pods of this node by UID, and the pods among them whose devices the kubelet reports."""

    pods: Mapping[str, NodePod]
    observed: Sequence[ObservedPod]
    # The reasons, by UID, why pods are not written. The kubelet reports only some of their devices, so the ledger would
    # reject the assignments.
    partial: Mapping[str, AssignmentError]
    # Whether the known pods differ from the pods that the kubelet reports, for example after a missed event.
    pods_outdated: bool = False

    @property
    def awaited(self) -> set[str]:
        """The cards on which pods wait for their assigned devices."""
        waiting = (each.assigned.assignment for each in self.pods.values() if each.assigned and not each.admitted)
        return {share.card for assignment in waiting for shares in assignment.containers.values() for share in shares}

    def count_uncounted(self) -> tuple[Share, ...]:
        """Return the amounts that are allocated to pods on cards, but that no assignment contains."""
        observed = {each.uid: each.observed for each in self.observed}
        return count_uncounted(
            Account(each.pod.order, each.assigned.assignment if each.assigned else None, self._find_held(uid, observed))
            for uid, each in self.pods.items()
        )

    def _find_held(self, uid: str, observed: Mapping[str, Assignment]) -> Assignment | None:
        each = self.pods[uid]
        # If the kubelet does not report any devices for an admitted pod, the pod's assignment is used.
        known = each.assigned.assignment if each.assigned and each.admitted else None
        return observed.get(uid, known)


def take_snapshot(pods: Iterable[NodePod], view: KubeletView, node: NodeCards) -> Snapshot:
    """Compare the assignments of the pods with the devices that their kubelet reports."""
    by_uid = {each.pod.ref.uid: each for each in pods}
    observed = [found for each in by_uid.values() if (found := _observe(each, view, node))]
    refused = ((each.uid, _check(by_uid[each.uid], each.observed, node)) for each in observed)
    partial = {uid: error for uid, error in refused if error}
    return Snapshot(by_uid, observed, partial, _are_pods_outdated(by_uid.values(), view.by_name.keys()))


def _are_pods_outdated(pods: Collection[NodePod], reported: Collection[PodName]) -> bool:
    expected = {(each.pod.ref.namespace, each.pod.ref.name) for each in pods if _is_reported(each)}
    known = {(each.pod.ref.namespace, each.pod.ref.name) for each in pods}
    return any(name not in reported for name in expected) or any(name not in known for name in reported)


def _is_reported(each: NodePod) -> bool:
    """Return whether the kubelet is expected to report devices for the pod.

    The kubelet does not report the devices of plain init containers.
    """
    if not each.admitted or each.assigned is None:
        return False
    containers = each.assigned.assignment.containers
    return any(containers.get(name) for name, kind in each.pod.order if kind is not Kind.INIT)


def _observe(each: NodePod, view: KubeletView, node: NodeCards) -> ObservedPod | None:
    # Before the pod's admission, the reported devices may belong to a pod with the same name that has just terminated.
    if not each.admitted:
        return None
    devices = view.find_devices(each, node.ids)
    if not devices:
        return None
    written = each.assigned.assignment if each.assigned else None
    observed = observe_assignment(written, each.pod.order, devices, node, each.unit_bytes)
    if observed is None:
        return None
    return ObservedPod(each.pod.ref.uid, written, _with_broken(each.pod, observed, node), bool(each.rejection))


def _with_broken(pod: CardPod, observed: Assignment, node: NodeCards) -> Assignment:
    try:
        request = pod.read_request(node.unit_bytes)
    except RequestError as exc:
        sentences: tuple[str, ...] = (str(exc),)
    else:
        sentences = find_broken_constraints(request, observed, node.cards, node.links) if request else ()
    return msgspec.structs.replace(observed, broken=sentences or msgspec.UNSET)


def _check(each: NodePod, observed: Assignment, node: NodeCards) -> AssignmentError | None:
    capacities = {name: card.capacity_bytes for name, card in node.cards.items()}
    try:
        check_assignment(each.pod, observed, capacities, each.unit_bytes)
    except AssignmentError as exc:
        return exc
    return None


def _infer_init(
    pod: CardPod, reported: Mapping[str, ContainerDevices], ids: DeviceIds
) -> Mapping[str, ContainerDevices]:
    """Return the devices of plain init containers, if the devices of the app containers determine them.

    A kubelet first reuses the devices of init containers for app containers. If the app containers request at least as
    many devices as the init containers, all of these devices are allocated to the app containers.
    """
    if Kind.SIDECAR in dict(pod.order).values():
        return {}
    resources = pod.dialect.resources
    of_apps = (
        (resources.memory, [each for name in pod.app_containers if name in reported for each in reported[name].memory]),
        (resources.cards, [each for name in pod.app_containers if name in reported for each in reported[name].whole]),
    )
    found: dict[str, list[list[str]]] = {}
    for resource, pool in of_apps:
        limits = {each.name: _read_limit(each, resource) for each in pod.containers if each.kind is Kind.INIT}
        certain = max(limits.values(), default=0) <= len(pool)
        for name, count in limits.items():
            if certain and (count in (0, len(pool)) or len(ids.count_by_card(pool)) == 1):
                found.setdefault(name, []).append(pool[:count])
    held = {name: ContainerDevices(*parts) for name, parts in found.items() if len(parts) == len(of_apps)}
    return {name: devices for name, devices in held.items() if devices.memory or devices.whole}


def _read_limit(container: CardContainer, resource: str) -> int:
    try:
        return parse_amount(container, resource) or 0
    except RequestError:
        return 0
