"""The pods of this node, from a watch and from additional list requests between watch events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from accelkit.errors import ApiError, AssignmentError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all, log_unreadable
from accelkit.kube.paths import PODS
from accelkit.kube.reflector import Reflector
from accelkit.model.assignment import Assignment
from accelkit.model.inventory import find_unit
from accelkit.model.object_meta import read_version
from accelkit.model.observed_versions import ObservedVersions
from accelkit.model.pod import Pod
from accelkit.node.assigned_pod import AssignedPod, SharingPod
from accelkit.node.node_cards import NodeCards
from accelkit.node.static_pods import STATIC_ANNOTATIONS, StaticPods
from accelkit.reporting import OnceReporter
from accelkit.vendors.checked_assignments import check_assignment, describe_difference, list_compute
from accelkit.vendors.counted_dialects import BoundPodReader
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.pod_reading import CardPod, PodReader

log = logging.getLogger(__name__)

# The timeout of the list request. A call to `Allocate` may wait for this request, and the kubelet waits for `Allocate`.
_REFRESH_SECONDS = 30


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod of this node that requests cards.

    Attributes:
        cgroup_uid: the UID in the name of its cgroup.
        running: the container ID of each running container, by container name.
        unit_bytes: the unit in which the kubelet allocated devices to the pod; before the allocation, the current unit.
        assigned: the pod with the valid part of its assignment; None if no part of an assignment is valid.
        rejection: the reason why its assignment is completely or partially invalid; empty if it is valid.
    """

    pod: CardPod
    cgroup_uid: str
    unit_bytes: int
    assigned: AssignedPod | None
    running: Mapping[str, str] = field(default_factory=dict)
    rejection: str = ""

    @property
    def admitted(self) -> bool:
        """Whether the kubelet has admitted the pod and allocated its devices."""
        return self.pod.admitted


@dataclass(slots=True)
class _Readings:
    """The pods that were read, by UID, and the results that are computed from them on demand."""

    pods: dict[str, CardPod] = field(default_factory=dict)
    # The compute of each container when its pod was first read, regardless of subsequent changes to the annotation.
    compute: dict[str, Mapping[str, int]] = field(default_factory=dict)
    # The container IDs of the running containers.
    running: dict[str, Mapping[str, str]] = field(default_factory=dict)
    # The resource version in which each pod was first read. This is the version of the Binding, unless the pod was read
    # later.
    first_versions: dict[str, int] = field(default_factory=dict)
    # None after a change, until the pods are requested again.
    node_pods: dict[str, NodePod] | None = None

    def drop(self, uid: str) -> None:
        """Remove a pod."""
        for each in (self.pods, self.compute, self.running, self.first_versions):
            each.pop(uid, None)


class NodePods:
    """Pods that are bound to one node and have cards or wait for them.

    Args:
        api: an open client.
        node: the name of the node.
        dialect: the dialect whose resources the node offers. Pods of former dialects are also read.
        reader: the pod reader; None for the dialect's default reader.
        on_change: called after each change.
    """

    def __init__(
        self,
        api: ApiClient,
        node: str,
        dialect: Dialect,
        *,
        reader: PodReader | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._reader = reader or BoundPodReader([dialect], advertised=True)
        self._on_change = on_change
        self._query = {"fieldSelector": f"spec.nodeName={node}"}
        self._readings = _Readings()
        self._cards = NodeCards({}, 1)
        self._static = StaticPods()
        self._versions = ObservedVersions()
        # The resource version of the newest pod in the first list of the current kubelet; 0 if the kubelet started
        # before this agent.
        self._listed_version = 0
        self._unreadable = OnceReporter(log, logging.ERROR)
        self._rejections = OnceReporter(log)
        self.reflector = Reflector(
            api, PODS, Pod, query=self._query, trim=self._trim, on_replace=self._replace, on_event=self._event
        )

    def list_pods(self) -> Sequence[NodePod]:
        """Return the pods that request cards and have not terminated."""
        return list(self._compute_pods().values())

    def list_uids(self) -> frozenset[str]:
        """Return the UIDs in the names of the cgroups of all pods of this node, with or without cards."""
        return self._static.list_cgroup_uids()

    def list_assigned(self) -> list[AssignedPod]:
        """Return the pods with a valid assignment."""
        return [each.assigned for each in self._compute_pods().values() if each.assigned is not None]

    def list_assigned_names(self) -> frozenset[tuple[str, str]]:
        """Return the namespaces and names of the pods with an assignment, valid or not."""
        written = (each.pod for each in self._compute_pods().values() if each.pod.assignment is not None)
        return frozenset((pod.ref.namespace, pod.ref.name) for pod in written)

    def list_unassigned(self) -> frozenset[str]:
        """Return the UIDs of the pods that have no valid assignment and that the kubelet has not admitted."""
        pods = self._compute_pods().items()
        return frozenset(uid for uid, each in pods if each.assigned is None and not each.admitted)

    def list_sharing(self) -> list[SharingPod]:
        """Return the pods that request units of memory, with or without an assignment."""
        return [
            SharingPod(each.pod.ref.namespace, each.pod.ref.name, each.unit_bytes, each.pod.started_at)
            for each in self._compute_pods().values()
            if each.pod.read_memory_units()
        ]

    @property
    def node_cards(self) -> NodeCards:
        """The cards from the last call to `set_cards`; empty before the first call."""
        return self._cards

    def set_cards(self, cards: NodeCards) -> None:
        """Replace the cards and units that are used to check assignments."""
        if cards != self._cards:
            self._cards, self._readings.node_pods = cards, None

    def confirm(self, reported: Collection[tuple[str, str]]) -> None:
        """Replace the names of the pods that the kubelet reports, which are used to confirm static pods.

        Each name includes the namespace.
        """
        if self._static.confirm(reported):
            self._readings.node_pods = None

    def note_new_kubelet(self) -> None:
        """Record that the kubelet has restarted.

        A restarted kubelet admits the pods in its first list in the order of their creation.
        """
        self._listed_version = max(self._readings.first_versions.values(), default=0)
        self._readings.node_pods = None

    def take(self, pod: Pod) -> None:
        """Apply a pod that the API server returned in response to a request for this pod."""
        self._event("MODIFIED", pod)

    async def refresh(self) -> bool:
        """List the pods again without delay; return whether the request succeeded.

        If it fails, the known pods do not change.
        """
        unreadable: list[bytes] = []

        def leave_out(text: bytes, error: Exception) -> None:
            log_unreadable(text, error)
            unreadable.append(text)

        try:
            async with asyncio.timeout(_REFRESH_SECONDS):
                pods, version = await list_all(
                    self._api, PODS, Pod, query=self._query, trim=self._trim, on_unreadable=leave_out
                )
        except (ApiError, TimeoutError) as exc:
            log.warning("cannot list this node's pods: %s", str(exc) or f"no response within {_REFRESH_SECONDS} s")
            return False
        listed = {pod.metadata.uid for pod in pods}
        # An unreadable pod has no UID in `listed`, but it is not missing.
        self._take_list(pods, () if unreadable else self._versions.discard_missing(listed, version))
        return True

    def _trim(self, pod: Pod) -> None:
        self._reader.trim(pod, keep=STATIC_ANNOTATIONS)

    def _replace(self, pods: Sequence[Pod]) -> None:
        listed = {pod.metadata.uid for pod in pods}
        self._take_list(pods, self._versions.discard_missing(listed, self.reflector.version, unsure=True))

    def _take_list(self, pods: Iterable[Pod], missing: Iterable[str]) -> None:
        for uid in missing:
            self._drop(uid)
        for pod in pods:
            self._event("ADDED", pod)

    def _event(self, kind: str, pod: Pod) -> None:
        uid = pod.metadata.uid
        if kind == "DELETED":
            self._versions.end(pod.metadata)
            self._drop(uid)
        elif self._versions.take(pod.metadata):
            self._static.put(pod)
            self._put(pod)

    def _put(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        found = None if pod.terminal else self._read(pod)
        if found is None:
            self._readings.drop(uid)
        else:
            self._readings.pods[uid] = found
            self._readings.running[uid] = pod.list_running()
            version = read_version(pod.metadata.resource_version)
            self._readings.first_versions.setdefault(uid, version or 0)
        self._note_change()

    def _drop(self, uid: str) -> None:
        self._static.drop(uid)
        self._readings.drop(uid)
        self._note_change()

    def _note_change(self) -> None:
        self._readings.node_pods = None
        self._on_change()

    def _read(self, pod: Pod) -> CardPod | None:
        try:
            found = self._reader.read(pod)
        except Exception as exc:  # noqa: BLE001 - one pod must not stop the agent
            self._unreadable.report(pod.metadata.uid, f"cannot read pod {pod.ref}", error=exc)
            return None
        return found if found is not None and found.requests_cards else None

    def _compute_pods(self) -> dict[str, NodePod]:
        if self._readings.node_pods is None:
            running = self._readings.running
            checked = {uid: self._try_check(pod) for uid, pod in self._readings.pods.items()}
            self._readings.node_pods = {
                uid: replace(each, running=running[uid]) for uid, each in checked.items() if each is not None
            }
        return self._readings.node_pods

    def _try_check(self, pod: CardPod) -> NodePod | None:
        try:
            return self._check(pod)
        except Exception as exc:  # noqa: BLE001 - one pod must not stop the agent
            self._unreadable.report(pod.ref.uid, f"cannot read pod {pod.ref}", error=exc)
            return None

    def _check(self, pod: CardPod) -> NodePod:
        uid = pod.ref.uid
        cgroup_uid = self._static.find_cgroup_uid(uid)
        unit_bytes = find_unit(self._cards.unit_bytes, self._cards.former_units, pod.started_at)
        written = pod.assignment
        if written is None:
            return NodePod(pod, cgroup_uid, unit_bytes, None)
        if isinstance(written, AssignmentError):
            return self._reject(pod, cgroup_uid, unit_bytes, written)
        try:
            capacities = {name: card.capacity_bytes for name, card in self._cards.cards.items()} or None
            valid = check_assignment(pod, written, capacities, unit_bytes, self._readings.compute.get(uid))
        except AssignmentError as exc:
            return self._reject(pod, cgroup_uid, unit_bytes, exc)
        difference = describe_difference(written, valid)
        # Before the pod is admitted, the unit may still change between its Binding and the allocation of its devices.
        if difference and pod.admitted:
            self._report_rejection(pod, f"is rejected in part: {difference}")
        self._readings.compute.setdefault(uid, list_compute(valid))
        return NodePod(
            pod,
            cgroup_uid,
            unit_bytes,
            _build_assigned(pod, written, valid, unit_bytes, self._find_order(pod)),
            rejection=difference,
        )

    def _find_order(self, pod: CardPod) -> tuple[int, str, str]:
        """Return the sort key for the order of admission.

        Pods in the kubelet's first list are sorted by age, and other pods by resource version.
        """
        arrived = self._readings.first_versions.get(pod.ref.uid, 0)
        return (0 if arrived <= self._listed_version else arrived), pod.created_at, pod.ref.name

    def _reject(self, pod: CardPod, cgroup_uid: str, unit_bytes: int, error: AssignmentError) -> NodePod:
        self._report_rejection(pod, f"is rejected: {error}")
        return NodePod(pod, cgroup_uid, unit_bytes, None, rejection=str(error))

    def _report_rejection(self, pod: CardPod, message: str) -> None:
        # Do not report a rejection while the agent starts, because the unit of memory is unknown.
        if self._cards.cards:
            self._rejections.report(pod.ref.uid, f"the assignment of pod {pod.ref} {message}")


def _build_assigned(
    pod: CardPod, written: Assignment, valid: Assignment, unit_bytes: int, order: tuple[int, str, str]
) -> AssignedPod | None:
    if not valid.containers:
        return None
    written_bytes = {
        name: sum(share.memory_bytes for share in written.containers.get(name, ()) if not share.whole)
        for name in valid.containers
    }
    return AssignedPod(
        pod.ref.uid,
        pod.ref.namespace,
        pod.ref.name,
        order,
        tuple(container.name for container in pod.containers),
        valid,
        units=pod.read_memory_units(),
        unit_bytes=unit_bytes,
        written_bytes=written_bytes,
        admitted=pod.admitted,
        limits={container.name: frozenset(container.limits) for container in pod.containers},
    )
