"""The pods of this node, watched; where the watch has not seen a pod yet, read from the API server."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from accelkit.cluster.client import ApiClient
from accelkit.cluster.feed import PODS
from accelkit.cluster.reflector import Reflector, list_all
from accelkit.errors import ApiError, AssignmentError
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, decode_assignment
from accelkit.model.pod import Pod
from accelkit.node.assigned_pod import AssignedPod
from accelkit.vendors.requests import containers_in_order, limits_of

log = logging.getLogger(__name__)


class NodePods:
    """Pods bound to one node that hold cards or wait for them.

    Args:
        api: an open client.
        node: the node's name.
        resource: the extended resource of memory.
    """

    def __init__(self, api: ApiClient, node: str, resource: str) -> None:
        self._api = api
        self._resource = resource
        self._query = {"fieldSelector": f"spec.nodeName={node}"}
        self._pods: dict[str, AssignedPod] = {}
        self._refreshes: list[set[str]] = []
        self.reflector = Reflector(api, PODS, Pod, query=self._query, on_replace=self._replace, on_event=self._event)

    def assigned(self) -> list[AssignedPod]:
        """Return the pods with a readable assignment."""
        return list(self._pods.values())

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
        for pod in pods:
            self._event("ADDED", pod)

    def _event(self, kind: str, pod: Pod) -> None:
        uid = pod.metadata.uid
        assigned = None if kind == "DELETED" or pod.terminal else _assigned(pod, self._resource)
        if assigned is None:
            self._pods.pop(uid, None)
            for ended in self._refreshes:
                ended.add(uid)
        else:
            self._pods[uid] = assigned


def _assigned(pod: Pod, resource: str) -> AssignedPod | None:
    text = pod.annotation(ASSIGNMENT_ANNOTATION)
    if text is None:
        return None
    meta = pod.metadata
    try:
        assignment = decode_assignment(text)
    except AssignmentError as exc:
        log.warning("pod %s/%s: %s", meta.namespace, meta.name, exc)
        return None
    # The kubelet admits pods in the order of their creation.
    order = (meta.creation_timestamp or "", meta.name)
    containers = tuple(container.name for container, _ in containers_in_order(pod))
    return AssignedPod(
        meta.uid,
        meta.namespace,
        meta.name,
        order,
        containers,
        assignment,
        units=limits_of(pod, resource),
        admitted=pod.status.start_time is not None,
    )
