"""Watches the pods of this node, and reads from the API server what the watch has not shown yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import PODS
from accelkit.kube.reflector import Reflector, list_all
from accelkit.model.assignment import Assignment
from accelkit.model.pod import Pod
from accelkit.node.assigned_pod import AssignedPod
from accelkit.vendors.dialects import Dialect
from accelkit.vendors.pod_reading import CardPod, PodReader

log = logging.getLogger(__name__)

# Where the mirror of a static pod carries the kubelet's own UID of it.
_STATIC_UID: Final = "kubernetes.io/config.hash"


def find_cgroup_uid(pod: Pod) -> str:
    """Return the UID by which a pod's cgroup is named: the kubelet's own for a static pod, which the API's is not."""
    return pod.find_annotation(_STATIC_UID) or pod.metadata.uid


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod of this node that asks for cards or has an assignment.

    Attributes:
        cgroup_uid: the UID by which its cgroup is named.
        assigned: its assignment; None where there is none, or it cannot be read.
    """

    pod: CardPod
    cgroup_uid: str
    assigned: AssignedPod | None

    @property
    def admitted(self) -> bool:
        """Whether the kubelet has taken the pod, devices and all."""
        return self.pod.admitted


class NodePods:
    """Pods bound to one node that hold cards or wait for them.

    Args:
        api: an open client.
        node: the node's name.
        dialect: whose resource names the node advertises.
        on_change: called after each change.
    """

    def __init__(
        self, api: ApiClient, node: str, dialect: Dialect, *, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._api = api
        self._reader = PodReader([dialect])
        self._on_change = on_change
        self._query = {"fieldSelector": f"spec.nodeName={node}"}
        self._pods: dict[str, NodePod] = {}
        self._uids: set[str] = set()
        self._refreshes: list[set[str]] = []
        self.reflector = Reflector(api, PODS, Pod, query=self._query, on_replace=self._replace, on_event=self._event)

    def list_pods(self) -> Sequence[NodePod]:
        """Return the pods that ask for cards or have an assignment, and have not ended."""
        return list(self._pods.values())

    def list_uids(self) -> frozenset[str]:
        """Return the UIDs of all pods of this node, under which their cgroups stand, with cards or without."""
        return frozenset(self._uids)

    def list_assigned(self) -> list[AssignedPod]:
        """Return the pods with a readable assignment."""
        return [each.assigned for each in self._pods.values() if each.assigned is not None]

    def take(self, pod: Pod) -> None:
        """Take over a pod as the API server has just answered it."""
        self._event("MODIFIED", pod)

    async def refresh(self) -> None:
        """Read the pods now; where the API server does not answer, what the watch has shown stays."""
        ended = set[str]()
        self._refreshes.append(ended)
        try:
            pods, _ = await list_all(self._api, PODS, Pod, query=self._query)
        except ApiError as exc:
            log.warning("cannot read this node's pods: %s", exc)
            return
        finally:
            self._refreshes.remove(ended)
        for pod in pods:
            # What the watch has seen end meanwhile is newer than this list.
            if pod.metadata.uid not in ended:
                self._event("ADDED", pod)

    def _replace(self, pods: Iterable[Pod]) -> None:
        self._pods.clear()
        self._uids.clear()
        for pod in pods:
            self._event("ADDED", pod)

    def _event(self, kind: str, pod: Pod) -> None:
        uid = pod.metadata.uid
        uids = {uid, find_cgroup_uid(pod)}
        if kind == "DELETED":
            self._uids -= uids
        else:
            self._uids |= uids
        found = None if kind == "DELETED" or pod.terminal else self._read(pod)
        if found is None:
            self._pods.pop(uid, None)
            for ended in self._refreshes:
                ended.add(uid)
        else:
            self._pods[uid] = found
        self._on_change()

    def _read(self, pod: Pod) -> NodePod | None:
        reading = self._reader.read(pod)
        if reading is None:
            return None
        assigned = _read_assigned(reading)
        return NodePod(reading, find_cgroup_uid(pod), assigned) if assigned or reading.asks else None


def _read_assigned(pod: CardPod) -> AssignedPod | None:
    if not isinstance(pod.assignment, Assignment):
        if pod.assignment is not None:
            log.warning("pod %s: %s", pod.ref, pod.assignment)
        return None
    return AssignedPod(
        pod.ref.uid,
        pod.ref.namespace,
        pod.ref.name,
        # The kubelet admits pods in the order of their creation.
        (pod.created_at, pod.ref.name),
        tuple(container.name for container in pod.containers),
        pod.assignment,
        units=pod.read_memory_units(),
        admitted=pod.admitted,
    )
