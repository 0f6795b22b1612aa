"""Counts what each namespace holds, and which pods that others ask for by their labels hold cards.

The ledger's: it is told of every pod that comes to hold cards or holds them no more, under the ledger's lock.
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

# So many selectors are counted at once; those that were asked about last. Each costs every pod of its namespace a look.
_MOST_SELECTORS: Final = 256
_NOTHING: Final = QuotaAmounts()


class HoldingPod(Protocol):
    """A pod that holds cards, or may."""

    @property
    def pod(self) -> PodRef:
        """Who it is."""

    @property
    def node(self) -> str:
        """Where it is."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels, as `key=value`."""

    @property
    def quota_amounts(self) -> QuotaAmounts:
        """What it holds of its namespace's quota."""


@dataclass(slots=True)
class Namespaces:
    """What the pods of each namespace hold together.

    Attributes:
        rules: the administrator's.
        stirred: those of which a pod that was refused on all nodes may have got its chance; whoever reads them empties
            the set.
        met: nodes on which a pod has come to hold cards that others want to share cards with; whoever reads them
            empties the set.
    """

    rules: SharingRules = NO_RULES
    stirred: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    # Those with a pod that was refused for their quota, and nothing released since.
    _refused: set[str] = field(default_factory=set)
    _held: dict[str, QuotaAmounts] = field(default_factory=dict)
    # How many pods of each selector hold cards, by namespace.
    _counts: dict[str, dict[PodSelector, int]] = field(default_factory=dict)
    _recent: OrderedDict[PodSelector, None] = field(default_factory=OrderedDict)

    def add(self, pod: HoldingPod) -> None:
        """Count a pod in."""
        namespace = pod.pod.namespace
        self._held[namespace] = self.get_held(namespace).plus(pod.quota_amounts)
        self._count(pod, 1)

    def remove(self, pod: HoldingPod) -> None:
        """Count a pod out."""
        namespace = pod.pod.namespace
        left = self.get_held(namespace).plus(pod.quota_amounts, -1)
        self._held[namespace] = left
        if left == _NOTHING:
            del self._held[namespace]
        if namespace in self._refused:
            self._stir(namespace)
        self._count(pod, -1)

    def get_held(self, namespace: str) -> QuotaAmounts:
        """Return what the pods of a namespace hold."""
        return self._held.get(namespace, _NOTHING)

    def list_held(self) -> Mapping[str, QuotaAmounts]:
        """Return what the pods of each namespace hold; callers change nothing."""
        return self._held

    def put_rules(self, rules: SharingRules) -> None:
        """Let other rules hold."""
        self.rules = rules
        for namespace in list(self._refused):
            self._stir(namespace)

    def judge(
        self,
        namespace: str,
        request: PodRequest,
        gone: Iterable[HoldingPod] = (),
        beside: Iterable[PodRequest] = (),
    ) -> Misfit | None:
        """Return why a namespace may not hold what a pod asks for beside what it holds; None where it may.

        Args:
            namespace: the pod's.
            request: what it asks for.
            gone: pods that are taken to hold nothing.
            beside: what others are taken to hold.
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
        """Note that a pod of a namespace was refused for its quota, and waits for what others of it release."""
        self._refused.add(namespace)

    def resolve(self, request: PodRequest, pods: Iterable[HoldingPod]) -> PodRequest:
        """Return a request without the wish to be beside pods of which none is there yet, and the pod is the first.

        Args:
            request: what the pod asks for.
            pods: all that hold cards; looked at where the selector is new.
        """
        wanted = {each.beside for each in request.containers if each.beside is not None}
        first = {each for each in wanted if not self._find_count(each, pods) and each.own}
        if not first:
            return request
        return PodRequest(
            tuple(
                msgspec.structs.replace(each, beside=None) if each.beside in first else each
                for each in request.containers
            )
        )

    def _find_count(self, selector: PodSelector, pods: Iterable[HoldingPod]) -> int:
        # Whether the asking pod is one of them says nothing of the others.
        selector = msgspec.structs.replace(selector, own=False)
        counts = self._counts.setdefault(selector.namespace, {})
        if selector not in counts:
            counts[selector] = sum(selector.matches(each.pod.namespace, each.labels) for each in pods)
            if len(self._recent) >= _MOST_SELECTORS:
                self._forget(self._recent.popitem(last=False)[0])
        self._recent[selector] = None
        self._recent.move_to_end(selector)
        return counts[selector]

    def _stir(self, namespace: str) -> None:
        self._refused.discard(namespace)
        self.stirred.add(namespace)

    def _forget(self, selector: PodSelector) -> None:
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
                    self.met.add(pod.node)
                elif not counts[selector]:
                    # The next one is the first, and may go anywhere.
                    self.stirred.add(namespace)
