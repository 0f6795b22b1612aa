"""Judges which nodes kube-scheduler would let a pod on to: its selector, required node affinity, and tolerations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from accelkit.extender.groups.objects import GroupNode, GroupPodSpec, Requirement, Term
from accelkit.kube.scheduling.node_rules import Taint, Toleration, bears_all, has_labels


class _Rules(msgspec.Struct, array_like=True):
    selector: dict[str, str]
    terms: list[Term] | None
    tolerations: list[Toleration]


_decoder = msgspec.json.Decoder(_Rules)


def encode_rules(spec: GroupPodSpec) -> bytes:
    """Return a pod's rules in a form that takes little room, and is the same for pods with the same rules."""
    rules = _Rules(spec.node_selector or {}, spec.required_terms, spec.tolerations or [])
    return msgspec.json.encode(rules, order="sorted")


class _Facts(NamedTuple):
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


class NodeFacts:
    """Labels and taints of all nodes."""

    def __init__(self) -> None:
        self._facts: dict[str, _Facts] = {}

    def replace(self, nodes: Iterable[GroupNode]) -> None:
        """Take over a complete list of nodes."""
        self._facts = {node.metadata.name: _read(node) for node in nodes}

    def take_event(self, kind: str, node: GroupNode) -> None:
        """Take over one change of a node."""
        if kind == "DELETED":
            self._facts.pop(node.metadata.name, None)
        else:
            self._facts[node.metadata.name] = _read(node)

    def list_allowed(self, encoded: bytes) -> set[str]:
        """Return the names of the nodes that a pod with these rules may be bound to."""
        rules = _decoder.decode(encoded)
        return {name for name, facts in self._facts.items() if _allows(rules, name, facts)}


def _read(node: GroupNode) -> _Facts:
    return _Facts(node.metadata.labels or {}, tuple(node.spec.list_taints()))


def _allows(rules: _Rules, name: str, facts: _Facts) -> bool:
    if not has_labels(facts.labels, rules.selector) or not bears_all(rules.tolerations, facts.taints):
        return False
    return rules.terms is None or any(_holds(term, name, facts.labels) for term in rules.terms)


def _holds(term: Term, name: str, labels: Mapping[str, str]) -> bool:
    found = [
        *(_meets(each, labels.get(each.key)) for each in term.match_expressions or ()),
        *_judge_fields(term.match_fields or (), name),
    ]
    # A term without requirements matches no node.
    return bool(found) and all(found)


def _judge_fields(fields: Collection[Requirement], name: str) -> Iterator[bool]:
    for each in fields:
        yield each.key == "metadata.name" and _meets(each, name)


def _meets(requirement: Requirement, value: str | None) -> bool:
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, value, values)
        case _:
            return False


def _compares(operator: str, value: str | None, values: list[str]) -> bool:
    try:
        found, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return found > bound if operator == "Gt" else found < bound
