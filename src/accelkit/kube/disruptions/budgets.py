"""Reads PodDisruptionBudgets, and says which pods they protect from an eviction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE, list_all
from accelkit.kube.paths import build_collection_path
from accelkit.model.object_meta import ObjectIdentity
from accelkit.model.pod import PodRef

BUDGETS: Final = build_collection_path("policy/v1", "poddisruptionbudgets")

# Whoever may write budgets may fill them with megabytes. A longer selector, as it is written, is taken to protect all
# of its namespace, and so are all budgets of a namespace with more of them, or with longer selectors together.
MOST_SELECTOR_BYTES: Final = 16 << 10
MOST_NAMESPACE_BYTES: Final = 256 << 10
MOST_IN_NAMESPACE: Final = 1000
# By two budgets a pod is protected as by a thousand.
_MOST_COVERING: Final = 2
_NOTHING: Final = msgspec.Raw(b"null")


class _Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: frozenset[str] | None = None


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[_Requirement, ...] | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels are selected; a condition that is not known counts as met."""
        wanted = (self.match_labels or {}).items()
        return all(labels.get(key) == value for key, value in wanted) and all(
            _meets(each, labels) for each in self.match_expressions or ()
        )


class _Spec(msgspec.Struct):
    selector: msgspec.Raw = _NOTHING


class _Status(msgspec.Struct, rename="camel"):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None


class WrittenBudget(msgspec.Struct):
    """A PodDisruptionBudget as the API server shows it, as far as it is read."""

    metadata: ObjectIdentity
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class DisruptionBudget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget, as far as it is kept.

    Attributes:
        selector: whom it covers of its namespace; None for nobody.
        allowed: how many more evictions are allowed now.
        disrupted: names of pods that count as evicted already.
        name: of the budget; empty for one that stands for all of its namespace.
    """

    selector: _Selector | None
    allowed: int = 0
    disrupted: frozenset[str] = frozenset()
    name: str = ""

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod of its namespace counts in it."""
        return self.selector is not None and self.selector.matches(labels)

    def allows(self, pod: PodRef) -> bool:
        """Return whether one more eviction, of this pod, is allowed now."""
        return self.allowed > 0 or pod.name in self.disrupted


@dataclass(slots=True)
class _Namespace:
    """The budgets of one namespace, and how long their selectors are together."""

    budgets: list[DisruptionBudget] = field(default_factory=list)
    selector_bytes: int = 0

    def add(self, budget: WrittenBudget) -> None:
        written, status = budget.spec.selector, budget.status
        size = memoryview(written).nbytes
        self.selector_bytes += size
        most = self.selector_bytes > MOST_NAMESPACE_BYTES or len(self.budgets) >= MOST_IN_NAMESPACE
        if most or size > MOST_SELECTOR_BYTES:
            # One is enough, and what comes after it changes nothing.
            self.budgets = [_PROTECTS_ALL]
        elif self.budgets != [_PROTECTS_ALL]:
            disrupted = frozenset(status.disrupted_pods or ())
            selector, name = _selector.decode(written), budget.metadata.name
            self.budgets.append(DisruptionBudget(selector, status.disruptions_allowed, disrupted, name))


class DisruptionBudgets:
    """All budgets of a cluster, as they are now.

    Raises:
        msgspec.MsgspecError: a selector cannot be read.
    """

    def __init__(self, budgets: Iterable[WrittenBudget] = ()) -> None:
        self._by_namespace: dict[str, _Namespace] = {}
        # By UID: what is asked of a pod is asked again for each plan that it is in.
        self._covering: dict[str, list[DisruptionBudget]] = {}
        for each in budgets:
            self.add(each)

    def add(self, budget: WrittenBudget) -> None:
        """Take over one more.

        Raises:
            msgspec.MsgspecError: its selector cannot be read.
        """
        self._by_namespace.setdefault(budget.metadata.namespace, _Namespace()).add(budget)

    def protects(self, pod: PodRef, labels: Mapping[str, str]) -> bool:
        """Return whether a pod's eviction would be refused.

        So it would be where several budgets cover the pod: the API server evicts no such pod.
        """
        return bool(self.find_rule(pod, labels))

    def find_rule(self, pod: PodRef, labels: Mapping[str, str]) -> str:
        """Return why a pod's eviction would be refused, with the names of budgets; empty where it would not be."""
        covering = self._list_covering(pod, labels)
        if covering == [_PROTECTS_ALL]:
            return "the PodDisruptionBudgets of its namespace are too long to read"
        if len(covering) > 1:
            return f"several PodDisruptionBudgets cover it, such as {covering[0].name} and {covering[1].name}"
        return "".join(f"PodDisruptionBudget {each.name} protects it" for each in covering if not each.allows(pod))

    def find_excess(self, pods: Iterable[tuple[PodRef, Mapping[str, str]]]) -> set[str]:
        """Return the UIDs of those pods that could not be evicted after the ones before them."""
        taken: dict[int, int] = {}
        excess = set[str]()
        for pod, labels in pods:
            covering = self._list_covering(pod, labels)
            for each in covering:
                if pod.name not in each.disrupted:
                    taken[id(each)] = taken.get(id(each), 0) + 1
            if len(covering) > 1 or any(taken.get(id(each), 0) > each.allowed for each in covering):
                excess.add(pod.uid)
        return excess

    def _list_covering(self, pod: PodRef, labels: Mapping[str, str]) -> list[DisruptionBudget]:
        """Return the budgets that cover a pod, of many the first."""
        if (known := self._covering.get(pod.uid)) is not None:
            return known
        of = self._by_namespace.get(pod.namespace, _Namespace())
        covering = list(islice((each for each in of.budgets if each.covers(labels)), _MOST_COVERING))
        return self._covering.setdefault(pod.uid, covering)


async def read_disruption_budgets(api: ApiClient) -> DisruptionBudgets:
    """Return the budgets of all namespaces.

    Raises:
        ApiError: the API server refused, or did not answer, or one of them cannot be read.
    """

    def refuse(_text: bytes, error: Exception) -> None:
        # Whom it protects is not known, so nobody is evicted.
        raise ApiError(f"a PodDisruptionBudget cannot be read: {error}") from error

    budgets = DisruptionBudgets()

    def keep(budget: WrittenBudget) -> None:
        try:
            budgets.add(budget)
        except UNREADABLE as exc:
            refuse(b"", exc)
        # What was written is as long as somebody wants it to be.
        budget.spec, budget.status = _Spec(), _Status()

    await list_all(api, BUDGETS, WrittenBudget, trim=keep, on_unreadable=refuse)
    return budgets


def _meets(each: _Requirement, labels: Mapping[str, str]) -> bool:
    match each.operator:
        case "In":
            return labels.get(each.key) in (each.values or frozenset())
        case "NotIn":
            return labels.get(each.key) not in (each.values or frozenset())
        case "Exists":
            return each.key in labels
        case "DoesNotExist":
            return each.key not in labels
        case _:
            return True


_PROTECTS_ALL: Final = DisruptionBudget(_Selector())
_selector = msgspec.json.Decoder(_Selector | None)
