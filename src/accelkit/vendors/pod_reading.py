"""Reads a pod once, where it enters a process: everything else of accelkit reads the resulting `CardPod`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final

import msgspec

from accelkit.errors import AssignmentError, RequestError
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, decode_assignment
from accelkit.model.pod import Container, Pod, PodRef
from accelkit.model.request import Kind, PodRequest
from accelkit.vendors.counted_requests import CardContainer, parse_amount
from accelkit.vendors.dialects import Dialect
from accelkit.vendors.requests import REQUEST_ANNOTATION, read_request

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class DeviceLimit(msgspec.Struct, frozen=True):
    """A resource of which the kubelet gives a container devices; `whole` where each of them is a card."""

    container: str
    resource: str
    whole: bool


class CardPod(msgspec.Struct, frozen=True):
    """A pod that asks for cards or has an assignment.

    Attributes:
        node: the node that it is bound to; empty before.
        created_at: as the API server writes it.
        admitted: whether the kubelet has taken the pod, devices and all.
        unschedulable: whether kube-scheduler has tried it and found no node.
        asks: whether a container names a resource of any of the dialects, if only with a limit of 0.
        dialect: the first one whose resources it names, else the first of all.
        dialects: those in which it was read.
        containers: in the order in which the kubelet allocates.
        assignment: what is written on it; None where nothing is, an error where that cannot be read.
    """

    ref: PodRef
    node: str
    created_at: str
    admitted: bool
    unschedulable: bool
    asks: bool
    dialect: Dialect
    dialects: tuple[Dialect, ...]
    containers: tuple[CardContainer, ...]
    annotations: Mapping[str, str]
    assignment: Assignment | AssignmentError | None

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
        return read_request(self.containers, self.annotations, self.dialects, unit_bytes)

    def read_request_by_limits(self, unit_bytes: int) -> PodRequest | None:
        """Return what the pod asks for by its limits alone, which is what a kubelet goes by.

        Raises:
            RequestError: the limits make no sense.
        """
        return read_request(self.containers, _NONE, self.dialects, unit_bytes)

    def list_device_limits(self) -> Iterator[DeviceLimit]:
        """Yield what the kubelet will give; annotations count for nothing there."""
        for container in self.containers:
            for dialect in self.dialects:
                for resource in dialect.resources.asking:
                    if container.limits.get(resource, 0) not in (0, "0"):
                        yield DeviceLimit(container.name, resource, resource == dialect.resources.cards)

    def read_memory_units(self) -> dict[str, int]:
        """Return how many units of memory each container asks for; limits that cannot be read are left out."""
        units: dict[str, int] = {}
        for container in self.containers:
            with suppress(RequestError):
                if amount := parse_amount(container, self.dialect.resources.memory):
                    units[container.name] = amount
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

    def read(self, pod: Pod) -> CardPod | None:
        """Return the pod's reading; None where it names no resource of a card and carries no annotation of ours."""
        place = self._find_dialect(pod)
        annotations = pod.metadata.annotations or _NONE
        if place is None and ASSIGNMENT_ANNOTATION not in annotations and REQUEST_ANNOTATION not in annotations:
            return None
        return CardPod(
            pod.ref,
            pod.spec.node_name,
            pod.metadata.creation_timestamp or "",
            pod.status.start_time is not None,
            pod.unschedulable,
            place is not None,
            self._dialects[place or 0],
            self._dialects,
            tuple(_read_containers(pod)),
            annotations,
            _read_assignment(annotations),
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


def _read_containers(pod: Pod) -> Iterator[CardContainer]:
    for container in pod.spec.init_containers or ():
        yield _read_container(container, Kind.SIDECAR if container.restart_policy == "Always" else Kind.INIT)
    for container in pod.spec.containers:
        yield _read_container(container, Kind.APP)


def _read_container(container: Container, kind: Kind) -> CardContainer:
    return CardContainer(container.name, kind, container.resources.limits or _NONE)


def _read_assignment(annotations: Mapping[str, str]) -> Assignment | AssignmentError | None:
    text = annotations.get(ASSIGNMENT_ANNOTATION)
    if text is None:
        return None
    try:
        return decode_assignment(text)
    except AssignmentError as exc:
        return exc.with_traceback(None)
