"""The amounts that each namespace uses, and the number of pods with cards that match each selector of a request.

The ledger updates these values under its lock whenever a pod gets or releases cards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from accelkit.model.pod import PodRef
from accelkit.model.request import PodRequest, PodSelector
from accelkit.placement.misfit import Misfit
from accelkit.placement.sharing.quota_amounts import QuotaAmounts, sum_request
from accelkit.placement.sharing.rules import NO_RULES, SharingRules, judge_quota

# The limit on the number of selectors for which pods are counted. The most recent selectors are retained. Each selector
# is compared with every pod in its namespace.
_MOST_SELECTORS: Final = 256
_NOTHING: Final = QuotaAmounts()


class HoldingPod(Protocol):
    """A pod that has cards or may have cards."""

    @property
    def pod(self) -> PodRef:
        """Reference of the pod."""

    @property
    def node(self) -> str:
        """Name of the pod's node."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the pod, as `key=value`."""

    @property
    def quota_amounts(self) -> QuotaAmounts:
        """Amounts that count against the quota of the pod's namespace."""


@dataclass(slots=True)
class Namespaces:
    """The total amounts of the pods in each namespace.

    Attributes:
        rules: the administrator's sharing rules.
        retriable: the namespaces in which a pod that was rejected on all nodes may now fit. The reader clears this set.
        affinity_nodes: the nodes on which a pod that matches a selector got cards. The reader clears this set.
    """

    rules: SharingRules = NO_RULES
    retriable: set[str] = field(default_factory=set)
    affinity_nodes: set[str] = field(default_factory=set)
    # The namespaces in which a pod was rejected because of the quota, and no share has been released since.
    _refused: set[str] = field(default_factory=set)
    _held: dict[str, QuotaAmounts] = field(default_factory=dict)
    # The number of pods with cards that match each selector, by namespace.
    _counts: dict[str, dict[PodSelector, int]] = field(default_factory=dict)
    _recent: OrderedDict[PodSelector, None] = field(default_factory=OrderedDict)

    def add(self, pod: HoldingPod) -> None:
        """Add the amounts of a pod."""
        namespace = pod.pod.namespace
        self._held[namespace] = self.get_held(namespace).plus(pod.quota_amounts)
        self._count(pod, 1)

    def remove(self, pod: HoldingPod) -> None:
        """Subtract the amounts of a pod."""
        namespace = pod.pod.namespace
        left = self.get_held(namespace).plus(pod.quota_amounts, -1)
        self._held[namespace] = left
        if left == _NOTHING:
            del self._held[namespace]
        if namespace in self._refused:
            self._mark_retriable(namespace)
        self._count(pod, -1)

    def get_held(self, namespace: str) -> QuotaAmounts:
        """Return the total amounts of the pods in a namespace."""
        return self._held.get(namespace, _NOTHING)

    def list_held(self) -> Mapping[str, QuotaAmounts]:
        """Return the total amounts of the pods in each namespace. Callers must not change the mapping."""
        return self._held

    def put_rules(self, rules: SharingRules) -> None:
        """Replace the sharing rules."""
        self.rules = rules
        for namespace in list(self._refused):
            self._mark_retriable(namespace)

    def judge(
        self,
        namespace: str,
        request: PodRequest,
        gone: Iterable[HoldingPod] = (),
        beside: Iterable[PodRequest] = (),
    ) -> Misfit | None:
        """Return the misfit if a pod's request would exceed the quota of its namespace; None if it would not.

        Args:
            namespace: the namespace of the pod.
            request: the request of the pod.
            gone: the pods in the namespace whose amounts are not counted.
            beside: additional requests, from other pods in the namespace, that are also counted.
        """
        quota = self.rules.find_quota(namespace) if self.rules.quotas else None
        if quota is None:
            return None
        held = self.get_held(namespace)
        for each in gone:
            if each.pod.namespace == namespace:
                held = held.plus(each.quota_amounts, -1)
        for one in beside:
            held = held.plus(sum_request(one))
        return judge_quota(quota, namespace, held, sum_request(request))

    def note_refused(self, namespace: str) -> None:
        """Record that a pod waits because its namespace has reached its quota."""
        self._refused.add(namespace)

    def resolve(self, request: PodRequest, pods: Iterable[HoldingPod]) -> PodRequest:
        """Return the request; omit an affinity selector if the pod itself is the first pod that the selector matches.

        Args:
            request: the request of the pod.
            pods: all pods that have cards. They are read only if the selector is new.
        """
        requested = {each.beside for each in request.containers if each.beside is not None}
        first = {each for each in requested if not self._find_count(each, pods) and each.own}
        if not first:
            return request
        return PodRequest(
            tuple(
                msgspec.structs.replace(each, beside=None) if each.beside in first else each
                for each in request.containers
            )
        )

    def _find_count(self, selector: PodSelector, pods: Iterable[HoldingPod]) -> int:
        # The number of other matching pods does not depend on whether the selector matches the pod itself.
        selector = msgspec.structs.replace(selector, own=False)
        counts = self._counts.setdefault(selector.namespace, {})
        if selector not in counts:
            counts[selector] = sum(selector.matches(each.pod.namespace, each.labels) for each in pods)
            if len(self._recent) >= _MOST_SELECTORS:
                self._discard(self._recent.popitem(last=False)[0])
        self._recent[selector] = None
        self._recent.move_to_end(selector)
        return counts[selector]

    def _mark_retriable(self, namespace: str) -> None:
        self._refused.discard(namespace)
        self.retriable.add(namespace)

    def _discard(self, selector: PodSelector) -> None:
        counts = self._counts[selector.namespace]
        del counts[selector]
        if not counts:
            del self._counts[selector.namespace]

    def _count(self, pod: HoldingPod, sign: int) -> None:
        namespace = pod.pod.namespace
        for selector in (counts := self._counts.get(namespace, {})):
            if selector.matches(namespace, pod.labels):
                counts[selector] += sign
                if sign > 0:
                    self.affinity_nodes.add(pod.node)
                elif not counts[selector]:
                    # The next matching pod will again be the first pod, which may use any node.
                    self.retriable.add(namespace)
