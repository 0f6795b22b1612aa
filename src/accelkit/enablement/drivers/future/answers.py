"""Answers to what will be: yes, no or unknown for a node and a question, with a reason and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from accelkit.enablement.drivers.reasons import REASONS
from accelkit.kernelcache.formats import ImageLabels


class Aspect(StrEnum):
    """What is to change."""

    KERNEL = "kernel"
    KUBERNETES = "kubernetes"
    DRIVER = "driver"


class Works(StrEnum):
    """Whether a node will still work; the best first."""

    YES = "yes"
    UNKNOWN = "unknown"
    NO = "no"


class Answer(msgspec.Struct, frozen=True):
    """The answer for one node and one question.

    Attributes:
        node: its name.
        aspect: what is to change.
        works: whether the node works then.
        reason: one of `accelkit.enablement.drivers.reasons.REASONS`.
        evidence: what was seen, as a sentence.
        next_action: what a person does now.
    """

    node: str
    aspect: Aspect
    works: Works
    reason: str
    evidence: str
    next_action: str


class Question(msgspec.Struct, frozen=True):
    """What is to come; an empty field asks nothing.

    Attributes:
        kernel: a release, as `5.14.0-503.11.1.el9_5.x86_64`.
        kubernetes: a version, as `1.36`.
        driver: a version of the driver, as `570.86.15`.
        vendor: whose driver; empty where the drivers of all vendors are meant.
    """

    kernel: str = ""
    kubernetes: str = ""
    driver: str = ""
    vendor: str = ""


class RequestedApi(msgspec.Struct, frozen=True):
    """A version of an API that somebody asks the API server for, and that will go; `removed` is when, as `1.32`."""

    api_version: str
    resource: str
    removed: str


class Facts(msgspec.Struct, frozen=True):
    """What is known of the cluster beside its nodes; None where it could not be read.

    Attributes:
        server: version of the API server, as `v1.34.4`.
        requested: deprecated APIs in use.
        slice_fields: what ResourceSlices of each node's devices use of DRA, as keys of `gates`; by node.
        images: whether each image is in its registry; None for one where nobody could tell.
        packages: whether a node's package manager has the driver's packages; None where nobody could tell.
        caches: labels of the kernel caches of the cluster, by name; None for one that could not be read.
    """

    server: str = ""
    requested: tuple[RequestedApi, ...] | None = None
    slice_fields: Mapping[str, frozenset[str]] | None = None
    images: Mapping[str, bool | None] = {}
    packages: Mapping[str, bool | None] = {}
    caches: Mapping[str, ImageLabels | None] | None = None


def answer(node: str, aspect: Aspect, works: Works, reason: str, evidence: str) -> Answer:
    """Return an answer with the next action of its reason."""
    return Answer(node, aspect, works, reason, evidence, REASONS[reason])


def find_worst(answers: Iterable[Answer]) -> Answer | None:
    """Return the answer that decides: a no, else an unknown, else the first."""
    order = list(Works)
    return max(answers, key=lambda each: order.index(each.works), default=None)
