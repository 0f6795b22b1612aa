"""PodDisruptionBudgets and the pods that they protect from eviction."""

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

# Users with permission to write budgets can fill them with megabytes of data. If a limit is exceeded, the whole
# namespace is treated as protected. The limits apply to the encoded size of a selector, the number of budgets in a
# namespace, and the total size of their selectors.
MOST_SELECTOR_BYTES: Final = 16 << 10
MOST_NAMESPACE_BYTES: Final = 256 << 10
MOST_IN_NAMESPACE: Final = 1000
# A pod that is covered by two budgets cannot be evicted, so additional budgets do not matter.
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
        """Return whether the labels match the selector. A requirement with an unknown operator always matches."""
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
    """A PodDisruptionBudget from the API server, with only the fields that accelkit uses."""

    metadata: ObjectIdentity
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class DisruptionBudget(msgspec.Struct, frozen=True):
    """The fields of a PodDisruptionBudget that accelkit stores.

    Attributes:
        selector: the selector for the pods that the budget covers in its namespace; None if it covers no pods.
        allowed: the number of evictions that are still allowed.
        disrupted: the names of pods that the budget already counts as evicted.
        name: the name of the budget; empty for a substitute that protects the whole namespace.
    """

    selector: _Selector | None
    allowed: int = 0
    disrupted: frozenset[str] = frozenset()
    name: str = ""

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Return whether the budget covers a pod with these labels in its namespace."""
        return self.selector is not None and self.selector.matches(labels)

    def allows(self, pod: PodRef) -> bool:
        """Return whether the budget allows the eviction of this pod."""
        return self.allowed > 0 or pod.name in self.disrupted


@dataclass(slots=True)
class _Namespace:
    """The budgets of one namespace, and the total size of their selectors."""

    budgets: list[DisruptionBudget] = field(default_factory=list)
    selector_bytes: int = 0

    def add(self, budget: WrittenBudget) -> None:
        written, status = budget.spec.selector, budget.status
        size = memoryview(written).nbytes
        self.selector_bytes += size
        most = self.selector_bytes > MOST_NAMESPACE_BYTES or len(self.budgets) >= MOST_IN_NAMESPACE
        if most or size > MOST_SELECTOR_BYTES:
            # One substitute is sufficient, and additional budgets do not change it.
            self.budgets = [_PROTECTS_ALL]
        elif self.budgets != [_PROTECTS_ALL]:
            disrupted = frozenset(status.disrupted_pods or ())
            selector, name = _selector.decode(written), budget.metadata.name
            self.budgets.append(DisruptionBudget(selector, status.disruptions_allowed, disrupted, name))


class DisruptionBudgets:
    """All PodDisruptionBudgets in a cluster at one point in time.

    Raises:
        msgspec.MsgspecError: a selector cannot be read.
    """

    def __init__(self, budgets: Iterable[WrittenBudget] = ()) -> None:
        self._by_namespace: dict[str, _Namespace] = {}
        # Results are cached by pod UID, because several plans can contain the same pod.
        self._covering: dict[str, list[DisruptionBudget]] = {}
        for each in budgets:
            self.add(each)

    def add(self, budget: WrittenBudget) -> None:
        """Add one budget.

        Raises:
            msgspec.MsgspecError: the selector of the budget cannot be read.
        """
        self._by_namespace.setdefault(budget.metadata.namespace, _Namespace()).add(budget)

    def protects(self, pod: PodRef, labels: Mapping[str, str]) -> bool:
        """Return whether the API server would reject the eviction of a pod.

        The API server also rejects the eviction if several budgets cover the pod.
        """
        return bool(self.find_rule(pod, labels))

    def find_rule(self, pod: PodRef, labels: Mapping[str, str]) -> str:
        """Return why the API server would reject a pod's eviction, with budget names; empty if it would not."""
        covering = self._list_covering(pod, labels)
        if covering == [_PROTECTS_ALL]:
            return "the PodDisruptionBudgets of its namespace are too long to read"
        if len(covering) > 1:
            return f"several PodDisruptionBudgets cover it, for example {covering[0].name} and {covering[1].name}"
        return "".join(f"PodDisruptionBudget {each.name} protects it" for each in covering if not each.allows(pod))

    def find_excess(self, pods: Iterable[tuple[PodRef, Mapping[str, str]]]) -> set[str]:
        """Return the UIDs of the pods that could not be evicted if all given pods were evicted in this order."""
        used: dict[int, int] = {}
        excess = set[str]()
        for pod, labels in pods:
            covering = self._list_covering(pod, labels)
            for each in covering:
                if pod.name not in each.disrupted:
                    used[id(each)] = used.get(id(each), 0) + 1
            if len(covering) > 1 or any(used.get(id(each), 0) > each.allowed for each in covering):
                excess.add(pod.uid)
        return excess

    def _list_covering(self, pod: PodRef, labels: Mapping[str, str]) -> list[DisruptionBudget]:
        """Return at most two budgets that cover a pod."""
        if (known := self._covering.get(pod.uid)) is not None:
            return known
        of = self._by_namespace.get(pod.namespace, _Namespace())
        covering = list(islice((each for each in of.budgets if each.covers(labels)), _MOST_COVERING))
        return self._covering.setdefault(pod.uid, covering)


async def read_disruption_budgets(api: ApiClient) -> DisruptionBudgets:
    """Return the budgets in all namespaces.

    Raises:
        ApiError: the API server rejected the request or did not respond, or a budget cannot be read.
    """

    def refuse(_text: bytes, error: Exception) -> None:
        # It is unknown which pods this budget protects, so pods must not be evicted.
        raise ApiError(f"cannot read a PodDisruptionBudget: {error}") from error

    budgets = DisruptionBudgets()

    def keep(budget: WrittenBudget) -> None:
        try:
            budgets.add(budget)
        except UNREADABLE as exc:
            refuse(b"", exc)
        # Do not retain the encoded budget, because a user can make it arbitrarily long.
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
