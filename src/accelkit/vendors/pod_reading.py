"""Reads a pod once, where it enters a process: everything else of accelkit reads the resulting `CardPod`."""

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
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, CHECK_RUN_ANNOTATION, REQUEST_ANNOTATION
from accelkit.model.pod import MIRROR_ANNOTATION, NEVER_PREEMPTS, Container, Pod, PodRef
from accelkit.model.request import Kind, PodRequest
from accelkit.texts import shorten
from accelkit.vendors.counted_requests import MAX_AMOUNTS, CardContainer, parse_amount
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.requests import read_request

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_OURS: Final = frozenset({ASSIGNMENT_ANNOTATION, REQUEST_ANNOTATION})
# A container with more amounts is refused, so what is left out is never granted.
_MAX_KEPT: Final = MAX_AMOUNTS + 1
# So many labels of a pod are looked at: they are kept as long as it holds cards.
_MAX_LABELS: Final = 128


class CardPod(msgspec.Struct, frozen=True):
    """A pod that asks for cards or has an assignment.

    Attributes:
        node: the node that it is bound to; empty before.
        created_at: as the API server writes it.
        started_at: when the kubelet had taken the pod, devices and all, as it writes it; None before.
        unschedulable: whether kube-scheduler has tried it and found no node.
        asks: whether a container names a resource of any of the dialects, if only with a limit of 0.
        dialect: the first one whose resources it names, else the first of all.
        dialects: those in which it was read.
        containers: in the order in which the kubelet allocates.
        annotations: those of the pod that some dialect reads.
        assignment: what is written on it, which is not what is believed of it; None where nothing is, an error where
            that cannot be read.
        labels: as `key=value`, which others' `with` and `apart` go by.
        priority: as admission wrote it; those of higher priority may have others evicted.
        preempts: whether its preemptionPolicy lets it, and it is no check of a node.
        nominated: whether kube-scheduler is preempting others for it.
        ending: whether it is being deleted.
        static: whether a kubelet runs it from a file, so that an eviction would end nothing.
        leaves_by: of one that is being deleted, until when it is expected to leave, in seconds since 1970.
        hold: the cards that are held for it while other pods are evicted; None for none.
    """

    ref: PodRef
    node: str
    created_at: str
    started_at: str | None
    unschedulable: bool
    asks: bool
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
        """Whether the kubelet has taken the pod, devices and all."""
        return self.started_at is not None

    def is_leaving(self, now: float) -> bool:
        """Return whether it is being deleted, and is expected to end; `now` is in seconds since 1970."""
        return self.ending and now < self.leaves_by

    @property
    def order(self) -> list[tuple[str, Kind]]:
        """The containers' names and kinds, in the order in which the kubelet allocates."""
        return [(container.name, container.kind) for container in self.containers]

    @property
    def app_containers(self) -> list[str]:
        """The names of the app containers, in their order."""
        return [container.name for container in self.containers if container.kind is Kind.APP]

    def read_request(self, unit_bytes: int) -> PodRequest | None:
        """Return what the pod asks for, None where it asks for no card.

        Args:
            unit_bytes: what a unit of memory is worth.

        Raises:
            RequestError: it asks for what cannot be granted as written.
        """
        try:
            request = read_request(self.containers, self.annotations, self.dialects, unit_bytes)
            return request if request is None or not request.selectors else self._settle_selectors(request)
        except RequestError as exc:
            # What a user wrote is told to others, and once for each node.
            raise RequestError(shorten(exc.message), next_step=shorten(exc.next_step)) from exc

    def _settle_selectors(self, request: PodRequest) -> PodRequest:
        """Return the request with selectors of this pod's namespace, that say whether it is one of those they name."""
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
        """Return what the pod asks for by its limits alone, which is what a kubelet goes by.

        Raises:
            RequestError: the limits make no sense.
        """
        return read_request(self.containers, _NONE, self.dialects, unit_bytes)

    def read_memory_units(self) -> dict[str, int]:
        """Return how many units of memory each container asks for; limits that cannot be read are left out."""
        units: dict[str, int] = {}
        for container in self.containers:
            for resource in dict.fromkeys(dialect.resources.memory for dialect in self.dialects):
                with suppress(RequestError):
                    if resource and (amount := parse_amount(container, resource)):
                        units.setdefault(container.name, amount)
        return units


class PodReader:
    """Reads pods in some dialects.

    Args:
        dialects: at least one; a container speaks the first one whose resources it names.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = tuple(dialects)
        # The first dialect that has a resource, by its place.
        self._places: dict[str, int] = {}
        for place, dialect in enumerate(dialects):
            for resource in dialect.resources.asking:
                self._places.setdefault(resource, place)
        self._resources = frozenset(self._places)
        self._limits = frozenset().union(*(dialect.resources.names for dialect in dialects))
        self._amounts = tuple({each.resources.amounts for each in dialects if each.resources.amounts})
        self._annotations = frozenset({REQUEST_ANNOTATION}.union(*(each.annotation_keys for each in dialects)))

    def read(self, pod: Pod) -> CardPod | None:
        """Return the pod's reading; None where it names no resource of a card and carries no annotation of ours."""
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
            # Pods are kept as long as they run, and what others write on them may be long.
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
        """Return the place of the first dialect whose resources the pod names."""
        found: int | None = None
        places, resources = self._places, self._resources
        for containers in (pod.spec.containers, pod.spec.init_containers or ()):
            for container in containers:
                # Most pods of a cluster have no cards: this is all that is done for them.
                if (limits := container.resources.limits) and not resources.isdisjoint(limits):
                    first = min(places[name] for name in resources.intersection(limits))
                    found = first if found is None else min(first, found)
        return found

    def trim(self, pod: Pod, *, keep: Collection[str] = ()) -> None:
        """Take from a pod what `read` does not look at: a user may have filled it with megabytes.

        Args:
            pod: is changed.
            keep: further annotations that are kept.
        """
        spec, metadata = pod.spec, pod.metadata
        # Many pods have one namespace, node or container name; each is kept once.
        metadata.namespace, spec.node_name = intern(metadata.namespace), intern(spec.node_name)
        kept = {*self._annotations, *_OURS, MIRROR_ANNOTATION, *keep}
        found = metadata.annotations or _NONE
        metadata.annotations = {key: found[key] for key in kept & found.keys()}
        if self._find_dialect(pod) is None and metadata.annotations.keys().isdisjoint(_OURS):
            metadata.labels = None
            # Of a pod without cards, only what it takes of its host is left.
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
    # Replicas have the same labels, and are many: each text is kept once.
    return tuple(intern(f"{key}={value}") for key, value in labels)


def _read_assignment(annotations: Mapping[str, str]) -> Assignment | AssignmentError | None:
    text = annotations.get(ASSIGNMENT_ANNOTATION)
    if text is None:
        return None
    try:
        return decode_assignment(text)
    except AssignmentError as exc:
        return exc.with_traceback(None)
