"""Conversion of pods into `CardPod` objects, which all other modules read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from sys import intern
from types import MappingProxyType
from typing import Final

import msgspec

from accelkit.errors import AssignmentError, RequestError
from accelkit.model.assignment import Assignment, decode_assignment
from accelkit.model.hold import Hold, find_hold
from accelkit.model.host_amounts import read_pod_amounts, write_amounts
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, CHECK_RUN_ANNOTATION, MIRROR_ANNOTATION, REQUEST_ANNOTATION
from accelkit.model.pod import NEVER_PREEMPTS, Container, Pod, PodRef
from accelkit.model.request import Kind, PodRequest
from accelkit.texts import shorten
from accelkit.vendors.counted_requests import MAX_AMOUNTS, CardContainer, parse_amount
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.requests import read_request

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_OURS: Final = frozenset({ASSIGNMENT_ANNOTATION, REQUEST_ANNOTATION})
# A container with more amounts is rejected, so the omitted amounts are never granted.
_MAX_KEPT: Final = MAX_AMOUNTS + 1
# The maximum number of labels that are read from a pod. It is limited because labels are stored while the pod has
# cards.
_MAX_LABELS: Final = 128


class CardPod(msgspec.Struct, frozen=True):
    """A pod that requests cards or has an assignment.

    Attributes:
        node: the node to which the pod is bound; empty if it is not bound yet.
        created_at: the creation time, in the format of the API server.
        started_at: the start time that the kubelet recorded after it admitted the pod and allocated its devices; None
            before that.
        unschedulable: whether kube-scheduler tried to schedule the pod but did not find a node.
        requests_cards: whether a container has a limit for a resource of any of the dialects, even if the limit is 0.
        dialect: the first dialect whose resources the pod requests; if there is none, the first of `dialects`.
        dialects: the dialects in which it was read.
        containers: the containers, in the order in which the kubelet allocates devices.
        annotations: the annotations of the pod that any of the dialects reads.
        assignment: the assignment from the annotation, without validation; None if it is missing, and an error if it
            cannot be read.
        labels: the labels as `key=value`, which selectors (`with` and `apart`) in requests from other pods can match.
        priority: the priority that was set at admission. Pods with a higher priority may preempt other pods.
        preempts: whether its preemptionPolicy allows preemption and the pod is not a check pod of a node.
        nominated: whether kube-scheduler is preempting other pods for this pod.
        ending: whether the pod is being deleted.
        static: whether the pod is a static pod, which cannot be stopped by an eviction.
        leaves_by: the Unix time in seconds until which a pod that is being deleted is expected to exist.
        hold: the hold on cards for the pod while other pods are evicted; None if there is no hold.
    """

    ref: PodRef
    node: str
    created_at: str
    started_at: str | None
    unschedulable: bool
    requests_cards: bool
    dialect: Dialect
    dialects: tuple[Dialect, ...]
    containers: tuple[CardContainer, ...]
    annotations: Mapping[str, str]
    assignment: Assignment | AssignmentError | None
    labels: tuple[str, ...] = ()
    priority: int = 0
    preempts: bool = True
    nominated: bool = False
    ending: bool = False
    static: bool = False
    leaves_by: float = 0.0
    hold: Hold | None = None

    @property
    def admitted(self) -> bool:
        """Whether the kubelet has admitted the pod and allocated its devices."""
        return self.started_at is not None

    def is_leaving(self, now: float) -> bool:
        """Return whether the pod is being deleted and is expected to terminate soon.

        `now` is the Unix time in seconds.
        """
        return self.ending and now < self.leaves_by

    @property
    def order(self) -> list[tuple[str, Kind]]:
        """The names and kinds of the containers, in the order in which the kubelet allocates devices."""
        return [(container.name, container.kind) for container in self.containers]

    @property
    def app_containers(self) -> list[str]:
        """The names of the app containers, in order."""
        return [container.name for container in self.containers if container.kind is Kind.APP]

    def read_request(self, unit_bytes: int) -> PodRequest | None:
        """Return the request of the pod; None if it does not request cards.

        Args:
            unit_bytes: the memory unit.

        Raises:
            RequestError: the request is invalid.
        """
        try:
            request = read_request(self.containers, self.annotations, self.dialects, unit_bytes)
            return request if request is None or not request.selectors else self._settle_selectors(request)
        except RequestError as exc:
            # Shorten the text, because the message is repeated for each node and is visible to other users.
            raise RequestError(shorten(exc.message), next_step=shorten(exc.next_step)) from exc

    def _settle_selectors(self, request: PodRequest) -> PodRequest:
        """Return the request with completed selectors.

        Each selector gets this pod's namespace, and whether it matches this pod.
        """
        own = self.ref.namespace, frozenset(self.labels)
        settled = {
            each: msgspec.structs.replace(each, namespace=own[0], own=frozenset(each.labels) <= own[1])
            for each in request.selectors
        }
        return PodRequest(
            tuple(
                msgspec.structs.replace(
                    each,
                    beside=None if each.beside is None else settled[each.beside],
                    apart=None if each.apart is None else settled[each.apart],
                )
                for each in request.containers
            )
        )

    def read_request_by_limits(self, unit_bytes: int) -> PodRequest | None:
        """Return the request of the pod according to its limits only, as a kubelet reads the pod.

        Raises:
            RequestError: the limits are invalid.
        """
        return read_request(self.containers, _NONE, self.dialects, unit_bytes)

    def read_memory_units(self) -> dict[str, int]:
        """Return the number of memory units that each container requests; unreadable limits are omitted."""
        units: dict[str, int] = {}
        for container in self.containers:
            for resource in dict.fromkeys(dialect.resources.memory for dialect in self.dialects):
                with suppress(RequestError):
                    if resource and (amount := parse_amount(container, resource)):
                        units.setdefault(container.name, amount)
        return units


class PodReader:
    """Pod reader for the given dialects.

    Args:
        dialects: one or more dialects. A container is read in the first dialect from which it requests resources.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = tuple(dialects)
        # The position of the first dialect that has a resource, by resource.
        self._places: dict[str, int] = {}
        for place, dialect in enumerate(dialects):
            for resource in dialect.resources.requestable:
                self._places.setdefault(resource, place)
        self._resources = frozenset(self._places)
        self._limits = frozenset().union(*(dialect.resources.names for dialect in dialects))
        self._amounts = tuple({each.resources.amounts for each in dialects if each.resources.amounts})
        self._annotations = frozenset({REQUEST_ANNOTATION}.union(*(each.annotation_keys for each in dialects)))

    def read(self, pod: Pod) -> CardPod | None:
        """Return the converted pod; None if it has neither a limit for a card resource nor an accelkit annotation."""
        place = self._find_dialect(pod)
        annotations = pod.metadata.annotations or _NONE
        if place is None and _OURS.isdisjoint(annotations):
            return None
        return CardPod(
            pod.ref,
            pod.spec.node_name,
            pod.metadata.creation_timestamp or "",
            pod.status.start_time,
            pod.unschedulable,
            place is not None,
            self._dialects[place or 0],
            self._dialects,
            tuple(self._read_containers(pod)),
            # Pods are stored in memory while they run, and annotations from other systems may be long.
            {key: annotations[key] for key in self._annotations & annotations.keys()},
            _read_assignment(annotations),
            _read_labels(pod),
            pod.spec.priority or 0,
            pod.spec.preemption_policy != NEVER_PREEMPTS and CHECK_RUN_ANNOTATION not in annotations,
            bool(pod.status.nominated_node_name),
            pod.metadata.deletion_timestamp is not None,
            MIRROR_ANNOTATION in annotations,
            pod.metadata.leaves_by if pod.metadata.deletion_timestamp is not None else 0.0,
            None if pod.spec.node_name else find_hold(pod.status.conditions or ()),
        )

    def _find_dialect(self, pod: Pod) -> int | None:
        """Return the position of the first dialect whose resources the pod requests; None if there is none."""
        found: int | None = None
        places, resources = self._places, self._resources
        for containers in (pod.spec.containers, pod.spec.init_containers or ()):
            for container in containers:
                # This check must be fast, because it runs for all pods, and most pods do not have cards.
                if (limits := container.resources.limits) and not resources.isdisjoint(limits):
                    first = min(places[name] for name in resources.intersection(limits))
                    found = first if found is None else min(first, found)
        return found

    def trim(self, pod: Pod, *, keep: Collection[str] = ()) -> None:
        """Remove the fields of a pod that `read` does not use, because they can contain megabytes of user data.

        Args:
            pod: the pod, which is modified.
            keep: additional annotations to keep.
        """
        spec, metadata = pod.spec, pod.metadata
        # Many pods share a namespace, node or container name, so each name is stored once.
        metadata.namespace, spec.node_name = intern(metadata.namespace), intern(spec.node_name)
        kept = {*self._annotations, *_OURS, MIRROR_ANNOTATION, *keep}
        found = metadata.annotations or _NONE
        metadata.annotations = {key: found[key] for key in kept & found.keys()}
        if self._find_dialect(pod) is None and metadata.annotations.keys().isdisjoint(_OURS):
            metadata.labels = None
            # For a pod without cards, retain only the requests for CPU and memory.
            spec.overhead = write_amounts(read_pod_amounts(spec))
            spec.containers, spec.init_containers = [], None
            pod.status.container_statuses = pod.status.init_container_statuses = None
        for container in (*spec.containers, *(spec.init_containers or ())):
            container.name = intern(container.name)
            container.resources.limits = self._trim_limits(container)
            requests = container.resources.requests or _NONE
            container.resources.requests = {key: requests[key] for key in ("cpu", "memory") if key in requests}

    def _read_containers(self, pod: Pod) -> Iterator[CardContainer]:
        for container in pod.spec.init_containers or ():
            yield self._read_container(container, Kind.SIDECAR if container.restart_policy == "Always" else Kind.INIT)
        for container in pod.spec.containers:
            yield self._read_container(container, Kind.APP)

    def _read_container(self, container: Container, kind: Kind) -> CardContainer:
        return CardContainer(container.name, kind, self._trim_limits(container) or _NONE)

    def _trim_limits(self, container: Container) -> dict[str, str | int | float] | None:
        limits = container.resources.limits
        if not limits:
            return None
        known = {name: limits[name] for name in self._limits & limits.keys()}
        if self._amounts:
            unknown = (each for each in limits.items() if each[0].startswith(self._amounts) and each[0] not in known)
            known.update(islice((each for each in unknown if each[1] not in (0, "0")), _MAX_KEPT))
        return known or None


def _read_labels(pod: Pod) -> tuple[str, ...]:
    labels = sorted((pod.metadata.labels or _NONE).items())[:_MAX_LABELS]
    # Many replicas have the same labels, so each text is stored once.
    return tuple(intern(f"{key}={value}") for key, value in labels)


def _read_assignment(annotations: Mapping[str, str]) -> Assignment | AssignmentError | None:
    text = annotations.get(ASSIGNMENT_ANNOTATION)
    if text is None:
        return None
    try:
        return decode_assignment(text)
    except AssignmentError as exc:
        return exc.with_traceback(None)
