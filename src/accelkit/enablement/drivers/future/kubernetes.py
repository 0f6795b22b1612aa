"""Prediction of whether a node works with a different Kubernetes version: version skew, removed APIs, feature gates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from accelkit.enablement.drivers.future.answers import Answer, Aspect, FutureFacts, Works, answer, find_worst
from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.reasons import DriverReason
from accelkit.install.pruning import KINDS
from accelkit.texts import list_some, shorten
from accelkit.yaml import load_yaml

_MINOR: Final = re.compile(r"^v?1\.(\d{1,9})(?:\.|$|[+-])")


class FeatureGate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A feature gate, with the version that introduces it and the version that enables it by default."""

    gate: str
    since: str
    on_since: str


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `data/kubernetes.yaml`."""

    newest: str
    removed: dict[str, tuple[str, ...]]
    gates: dict[str, FeatureGate]
    kubelet_skew: dict[str, int]


@cache
def load_table() -> Table:
    """Return the table of changes between minor versions of Kubernetes."""
    file = resources.files("accelkit.enablement.drivers.future") / "data" / "kubernetes.yaml"
    return msgspec.convert(load_yaml(file.read_text()), Table)


def read_minor(version: str) -> int | None:
    """Return the minor version from a text such as `1.36`, `v1.36.2` or `v1.36.2+k3s1`; None if it is invalid."""
    found = _MINOR.match(version)
    return None if found is None else int(found[1])


def judge_kubernetes(node: DriverNode, version: str, facts: FutureFacts) -> Answer:
    """Return whether a node will work after an upgrade of the API server to this version.

    If there are several obstacles, the answer describes the worst obstacle.
    """
    target = read_minor(version)
    if target is None:
        return _answer(node, Works.UNKNOWN, "VersionUnreadable", f"{version} is not a version of Kubernetes")
    found = [*_judge_server(node, target, facts), *_judge_kubelet(node, target), *_judge_apis(node, target, facts)]
    found += _judge_gates(node, target, facts)
    worst, kubelet = find_worst(found), shorten(node.kubelet)
    return worst or _answer(node, Works.YES, "Works", f"kubelet {kubelet} and all used features work with 1.{target}")


def _judge_server(node: DriverNode, target: int, facts: FutureFacts) -> Iterator[Answer]:
    newest = read_minor(load_table().newest) or 0
    if target > newest:
        text = f"this release of accelkit supports Kubernetes up to 1.{newest}"
        yield _answer(node, Works.UNKNOWN, "NewerThanKnown", text)
    server = read_minor(facts.server)
    if server is None:
        yield _answer(node, Works.UNKNOWN, "VersionUnreadable", f"the API server reports the version {facts.server!r}")
    elif target < server:
        yield _answer(node, Works.NO, "StepBack", f"the API server already runs {facts.server}")
    elif target > server + 1:
        yield _answer(
            node,
            Works.NO,
            "StepTooLong",
            f"from {facts.server} to 1.{target}, the upgrade spans more than one minor version",
        )


def _judge_kubelet(node: DriverNode, target: int) -> Iterator[Answer]:
    kubelet, reported = read_minor(node.kubelet), shorten(node.kubelet)
    allowed = [skew for since, skew in load_table().kubelet_skew.items() if target >= (read_minor(since) or 0)][-1]
    if kubelet is None:
        yield _answer(node, Works.UNKNOWN, "VersionUnreadable", f"its kubelet reports the version {reported!r}")
    elif kubelet > target:
        yield _answer(node, Works.NO, "KubeletTooNew", f"its kubelet runs {reported}, which is newer than 1.{target}")
    elif target - kubelet > allowed:
        text = f"its kubelet runs {reported}, but 1.{target} supports only kubelets of 1.{target - allowed} and later"
        yield _answer(node, Works.NO, "KubeletTooOld", text)


def _judge_apis(node: DriverNode, target: int, facts: FutureFacts) -> Iterator[Answer]:
    if lost := list_lost_kinds(target):
        yield _answer(
            node, Works.NO, "ApiRemoved", f"accelkit applies {list_some(lost)}, which 1.{target} does not serve"
        )
    if facts.requested is None:
        text = "it is unknown whether clients use APIs that will be removed"
        yield _answer(node, Works.UNKNOWN, "ApisUnknown", text)
        return
    going = sorted(
        f"{each.api_version} {each.resource}"
        for each in facts.requested
        if _is_removed(each.api_version, each.resource, each.removed, target)
    )
    if going:
        text = f"clients in the cluster use {list_some(going)}, which 1.{target} does not serve"
        yield _answer(node, Works.NO, "ApiRemoved", text)


def _is_removed(api_version: str, resource: str, removed: str, target: int) -> bool:
    if (version := read_minor(removed)) is not None:
        return version <= target
    name = f"{api_version} {resource}"
    return any(name in names and (read_minor(since) or 0) <= target for since, names in load_table().removed.items())


def list_lost_kinds(target: int) -> list[str]:
    """Return the kinds that accelkit's playbooks apply but this version does not serve in any usable API version."""
    return sorted(
        kind.name for kind in KINDS if all(_is_removed(each, kind.plural, "", target) for each in kind.versions)
    )


def _judge_gates(node: DriverNode, target: int, facts: FutureFacts) -> Iterator[Answer]:
    if facts.slice_fields is None:
        text = "it is unknown whether devices need feature gates"
        yield _answer(node, Works.UNKNOWN, "DevicesUnknown", text)
        return
    for field in sorted(facts.slice_fields.get(node.name, ())):
        gate = load_table().gates[field]
        since, on_since = read_minor(gate.since) or 0, read_minor(gate.on_since) or 0
        if target < since:
            yield _answer(
                node, Works.NO, "GateMissing", f"its devices need {gate.gate}, which 1.{target} does not have"
            )
        elif target < on_since:
            text = f"its devices need {gate.gate}, which is enabled by default only in {gate.on_since} and later"
            yield _answer(node, Works.UNKNOWN, "GateOff", text)


def _answer(node: DriverNode, works: Works, reason: DriverReason, evidence: str) -> Answer:
    return answer(node.name, Aspect.KUBERNETES, works, reason, evidence)
