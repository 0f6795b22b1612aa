"""Answers about future versions: yes, no or unknown for each node and question, with a reason and the next action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from accelkit.enablement.drivers.reasons import NEXT_ACTIONS, DriverReason
from accelkit.kernelcache.formats import ImageLabels


class Aspect(StrEnum):
    """The component to change."""

    KERNEL = "kernel"
    KUBERNETES = "kubernetes"
    DRIVER = "driver"


class Works(StrEnum):
    """Whether a node will work; the best value is first."""

    YES = "yes"
    UNKNOWN = "unknown"
    NO = "no"


class Answer(msgspec.Struct, frozen=True):
    """The answer for one node and one question.

    Attributes:
        node: the name of the node.
        aspect: the component to change.
        works: whether the node will work after the change.
        evidence: the evidence, as a sentence.
        next_action: the next action.
    """

    node: str
    aspect: Aspect
    works: Works
    reason: DriverReason
    evidence: str
    next_action: str


class FutureVersions(msgspec.Struct, frozen=True):
    """The future versions to check. A component is not checked if its field is empty.

    Attributes:
        kernel: a release, for example `5.14.0-503.11.1.el9_5.x86_64`.
        kubernetes: a version, for example `1.36`.
        driver: a version of the driver, for example `570.86.15`.
        vendor: the vendor of the driver; empty for all vendors.
    """

    kernel: str = ""
    kubernetes: str = ""
    driver: str = ""
    vendor: str = ""


class RequestedApi(msgspec.Struct, frozen=True):
    """A deprecated API version that a client requests; `removed` is the release that removes it, such as `1.32`."""

    api_version: str
    resource: str
    removed: str


class FutureFacts(msgspec.Struct, frozen=True):
    """Facts about the cluster except its nodes; facts that could not be read are None.

    Attributes:
        server: the version of the API server, for example `v1.34.4`.
        requested: the deprecated APIs in use.
        slice_fields: for each node, the gated DRA features that its ResourceSlices use, as keys of `gates`.
        images: whether each image exists in its registry; None if this is unknown.
        packages: whether a node's package manager has the driver's packages; None if this is unknown.
        caches: the labels of the cluster's kernel caches, by name; None for an unreadable cache.
    """

    server: str = ""
    requested: tuple[RequestedApi, ...] | None = None
    slice_fields: Mapping[str, frozenset[str]] | None = None
    images: Mapping[str, bool | None] = {}
    packages: Mapping[str, bool | None] = {}
    caches: Mapping[str, ImageLabels | None] | None = None


def answer(node: str, aspect: Aspect, works: Works, reason: DriverReason, evidence: str) -> Answer:
    """Return an answer, with the next action for the reason."""
    return Answer(node, aspect, works, reason, evidence, NEXT_ACTIONS[reason])


def find_worst(answers: Iterable[Answer]) -> Answer | None:
    """Return the worst answer; the first answer if several are equally bad, and None if there are no answers."""
    order = list(Works)
    return max(answers, key=lambda each: order.index(each.works), default=None)
