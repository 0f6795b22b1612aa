"""Search for the nodes that a pod's node selector, required node affinity and tolerations allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, Protocol

import msgspec

from accelkit.kube.scheduling.node_rules import has_labels, tolerates_all
from accelkit.kube.views.scheduling import SchedulingNode, SchedulingPodSpec, Taint, Term, Toleration

# Limits on the rules that are read from one pod, because all users who may create pods can write rules, and the rules
# are evaluated for each node.
MOST_REQUIREMENTS: Final = 256
MOST_VALUES: Final = 2000
MOST_BYTES: Final = 16 << 10
# The encoded rules of a pod that exceeds the limits. They do not allow any node.
TOO_MANY: Final = b""


class _Rules(msgspec.Struct, array_like=True):
    selector: dict[str, str]
    terms: list[Term] | None
    tolerations: list[Toleration]


class _Requirement(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: frozenset[str] = frozenset()


class _Term(msgspec.Struct, rename="camel"):
    match_expressions: tuple[_Requirement, ...] = ()
    match_fields: tuple[_Requirement, ...] = ()


class _ReadRules(msgspec.Struct, array_like=True):
    selector: dict[str, str]
    terms: list[_Term] | None
    tolerations: list[Toleration]

    def count(self) -> int:
        """Return the maximum number of requirements that are evaluated for one node."""
        terms = (len(each.match_expressions) + len(each.match_fields) for each in self.terms or ())
        return len(self.selector) + len(self.tolerations) + sum(terms)


_decoder = msgspec.json.Decoder(_ReadRules)


def encode_rules(spec: SchedulingPodSpec) -> bytes:
    """Return a pod's rules in a compact form, which is the same for all pods with the same rules.

    Returns:
        The encoded rules, which have at most `MOST_BYTES` bytes; `TOO_MANY` for a pod that exceeds the limits.
    """
    # A term without requirements matches no node.
    terms = spec.required_terms
    kept_terms = None if terms is None else [each for each in terms if each.match_expressions or each.match_fields]
    selector, tolerations = spec.node_selector or {}, spec.tolerations or []
    lists = chain.from_iterable((each.match_expressions, each.match_fields) for each in kept_terms or ())
    requirements = [*chain.from_iterable(each or () for each in lists)]
    if len(requirements) + len(selector) + len(tolerations) > MOST_REQUIREMENTS:
        return TOO_MANY
    if sum(len(each.values or ()) for each in requirements) > MOST_VALUES:
        return TOO_MANY
    encoded = msgspec.json.encode(_Rules(selector, kept_terms, tolerations), order="sorted")
    return TOO_MANY if len(encoded) > MOST_BYTES else _share(encoded)


@lru_cache(maxsize=256)
def _share(encoded: bytes) -> bytes:
    """Return a cached object with the same rules, because the replicas of a workload have the same rules."""
    return encoded


class Budget(Protocol):
    """A limit on the number of evaluation steps."""

    steps: int


class _Facts(NamedTuple):
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


class SchedulingFacts:
    """The labels and taints of all nodes."""

    def __init__(self) -> None:
        self._facts: dict[str, _Facts] = {}

    def replace(self, nodes: Iterable[SchedulingNode]) -> None:
        """Replace all nodes with a complete list."""
        self._facts = {node.metadata.name: _read(node) for node in nodes}

    def take_event(self, kind: str, node: SchedulingNode) -> None:
        """Apply a watch event for a node."""
        if kind == "DELETED":
            self._facts.pop(node.metadata.name, None)
        else:
            self._facts[node.metadata.name] = _read(node)

    def list_allowed(self, encoded: bytes, budget: Budget | None = None) -> set[str] | None:
        """Return the names of the nodes to which a pod with these rules may be bound.

        Args:
            encoded: the encoded rules.
            budget: the remaining steps. Each node uses one step, plus one step for each requirement.

        Returns:
            The names of the nodes; None if the budget is too small, so the result is unknown.
        """
        if encoded == TOO_MANY:
            return set()
        rules = _decoder.decode(encoded)
        if budget is not None:
            budget.steps -= (steps := len(self._facts) * (1 + rules.count()))
            if budget.steps < 0:
                budget.steps += steps
                return None
        return {name for name, facts in self._facts.items() if _allows(rules, name, facts)}


def _read(node: SchedulingNode) -> _Facts:
    return _Facts(node.metadata.labels or {}, tuple(node.spec.list_taints()))


def _allows(rules: _ReadRules, name: str, facts: _Facts) -> bool:
    if not has_labels(facts.labels, rules.selector) or not tolerates_all(rules.tolerations, facts.taints):
        return False
    return rules.terms is None or any(_holds(term, name, facts.labels) for term in rules.terms)


def _holds(term: _Term, name: str, labels: Mapping[str, str]) -> bool:
    return all(_meets(each, labels.get(each.key)) for each in term.match_expressions) and all(
        each.key == "metadata.name" and _meets(each, name) for each in term.match_fields
    )


def _meets(requirement: _Requirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: _Requirement, value: str | None) -> bool:
    try:
        # The API server accepts exactly one value.
        (text,) = requirement.values
        found, bound = int(value or ""), int(text)
    except ValueError:
        return False
    return found > bound if requirement.operator == "Gt" else found < bound
