"""Reads PodDisruptionBudgets, and says which pods they protect from an eviction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import build_collection_path
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import PodRef

BUDGETS: Final = build_collection_path("policy/v1", "poddisruptionbudgets")


class _Requirement(msgspec.Struct):
    key: str
    operator: str
    values: list[str] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels are selected; a condition that is not known counts as met."""
        wanted = (self.match_labels or {}).items()
        return all(labels.get(key) == value for key, value in wanted) and all(
            _meets(each, labels) for each in self.match_expressions or ()
        )


class _Spec(msgspec.Struct):
    selector: _Selector | None = None


class _Status(msgspec.Struct, rename="camel"):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None


class DisruptionBudget(msgspec.Struct):
    """A PodDisruptionBudget, as far as it is read."""

    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    def covers(self, pod: PodRef, labels: Mapping[str, str]) -> bool:
        """Return whether a pod counts in it."""
        selector = self.spec.selector
        return self.metadata.namespace == pod.namespace and selector is not None and selector.matches(labels)

    def allows(self, pod: PodRef) -> bool:
        """Return whether one more eviction, of this pod, is allowed now."""
        return self.status.disruptions_allowed > 0 or pod.name in (self.status.disrupted_pods or {})


class DisruptionBudgets:
    """All budgets of a cluster.

    Args:
        budgets: as they are now.
    """

    def __init__(self, budgets: Iterable[DisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[DisruptionBudget]] = {}
        for each in budgets:
            self._by_namespace.setdefault(each.metadata.namespace, []).append(each)

    def protects(self, pod: PodRef, labels: Mapping[str, str]) -> bool:
        """Return whether a pod's eviction would be refused.

        So it would be where several budgets cover the pod: the API server evicts no such pod.
        """
        covering = self._list_covering(pod, labels)
        return len(covering) > 1 or any(not each.allows(pod) for each in covering)

    def find_excess(self, pods: Iterable[tuple[PodRef, Mapping[str, str]]]) -> set[str]:
        """Return the UIDs of those pods that could not be evicted after the ones before them."""
        taken: dict[int, int] = {}
        excess = set[str]()
        for pod, labels in pods:
            covering = self._list_covering(pod, labels)
            for each in covering:
                if pod.name not in (each.status.disrupted_pods or {}):
                    taken[id(each)] = taken.get(id(each), 0) + 1
            if len(covering) > 1 or any(taken.get(id(each), 0) > each.status.disruptions_allowed for each in covering):
                excess.add(pod.uid)
        return excess

    def _list_covering(self, pod: PodRef, labels: Mapping[str, str]) -> list[DisruptionBudget]:
        return [each for each in self._by_namespace.get(pod.namespace, ()) if each.covers(pod, labels)]


async def read_disruption_budgets(api: ApiClient) -> DisruptionBudgets:
    """Return the budgets of all namespaces.

    Raises:
        ApiError: the API server refused, or did not answer, or one of them cannot be read.
    """

    def refuse(_text: bytes, error: Exception) -> None:
        # Whom it protects is not known, so nobody is evicted.
        raise ApiError(f"a PodDisruptionBudget cannot be read: {error}") from error

    found, _ = await list_all(api, BUDGETS, DisruptionBudget, on_unreadable=refuse)
    return DisruptionBudgets(found)


def _meets(each: _Requirement, labels: Mapping[str, str]) -> bool:
    match each.operator:
        case "In":
            return labels.get(each.key) in (each.values or ())
        case "NotIn":
            return labels.get(each.key) not in (each.values or ())
        case "Exists":
            return each.key in labels
        case "DoesNotExist":
            return each.key not in labels
        case _:
            return True
