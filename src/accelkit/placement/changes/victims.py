"""Search for the victims on a node: pods that are evicted so that a pod with a higher priority fits.

The search removes the pods on the cards that can be freed at the lowest cost or, if this is not sufficient, all
candidates. It then restores as many of these pods as possible. It starts with the pods of the highest priority and, for
equal priorities, with the smallest pods. The result contains only pods that cannot be restored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.changes.probe import Probe, Search, finish
from accelkit.placement.changes.situation import ShareHolder, Situation
from accelkit.placement.policies import AnyPolicy

# The limits on the search on one node, and on all nodes for one pod. The latter corresponds to two seconds at about 25
# microseconds per step.
STEPS_PER_NODE: Final = 4_000
MOST_STEPS: Final = 80_000
# This value is added to each priority so that the sum is positive, as in kube-scheduler. In sums, fewer pods are then
# more important than lower priorities.
_LOWEST: Final = 2**31


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may be evicted for another pod.

    Attributes:
        holder: the pod, with the amounts that it uses.
        priority: the priority that the API server set at the admission of the pod.
    """

    holder: ShareHolder
    priority: int

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return self.holder.pod.uid


Rank = tuple[int, int, int, tuple[str, ...]]


def rank_victims(victims: Collection[Candidate]) -> Rank:
    """Return a sort key that orders sets of victims in the same way as kube-scheduler, with the best set first.

    The key compares the highest priority, then the sum of priorities, which usually prefers fewer pods, and then the
    memory. Names break ties, so that the choice is deterministic.
    """
    return (
        max((each.priority for each in victims), default=-_LOWEST),
        sum(each.priority + _LOWEST for each in victims),
        sum(each.holder.memory_bytes for each in victims),
        tuple(sorted(str(each.holder.pod) for each in victims)),
    )


def find_victims(
    node: Situation,
    request: PodRequest,
    policy: AnyPolicy,
    candidates: Sequence[Candidate],
    budget: Budget,
    *,
    gone: Collection[str] = (),
) -> list[Candidate] | None:
    """Return the pods to evict from a node, with the highest priority first; empty if no eviction is necessary.

    Args:
        node: the cards of the node, and the pods that use the cards.
        request: the request of the pod.
        policy: the policy that ranks cards if the pod does not name one.
        candidates: the pods that may be evicted.
        budget: the number of steps for all trials. Each trial subtracts its steps.
        gone: the UIDs of the pods that terminate in any case.

    Returns:
        The pods; None if the pod would not fit even without all candidates, or if all steps of the budget were used
        before a set was found.
    """
    return finish(search_victims(node, request, policy, candidates, budget, gone=gone))


def search_victims(
    node: Situation,
    request: PodRequest,
    policy: AnyPolicy,
    candidates: Sequence[Candidate],
    budget: Budget,
    *,
    gone: Collection[str] = (),
) -> Search[list[Candidate] | None]:
    """Return the result of `find_victims`, and yield after each trial so that other work can run in between."""
    probe = Probe(policy, budget)
    gone = frozenset(gone)

    def fits(left: Collection[Candidate]) -> Search[bool]:
        states = node.leave_out(gone | {each.uid for each in left})
        return bool((yield from probe.find_cards(states, request)))

    if (yield from fits(())):
        return []
    best: list[Candidate] | None = None
    for some in _list_sets(node, request, candidates):
        if (
            (yield from fits(some))
            and (found := (yield from _give_back(some, fits)))
            and (best is None or rank_victims(found) < rank_victims(best))
        ):
            best = found
    if best is None and (yield from fits(candidates)):
        best = yield from _give_back(candidates, fits)
    return None if best is None else sorted(best, key=_order_result)


def _list_sets(node: Situation, request: PodRequest, candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """Yield the candidates on each card. For several cards, yield growing sets, starting with the cheapest cards."""
    on_cards: dict[int, list[Candidate]] = {}
    for each in candidates:
        for place, _ in each.holder.charges or ():
            on_cards.setdefault(place, []).append(each)
    one = sum(container.cards for container in request.containers) == 1
    together: dict[str, Candidate] = {}
    for place in sorted(range(len(node.states)), key=lambda place: rank_victims(on_cards.get(place, ()))):
        here = on_cards.get(place, [])
        if one:
            if here:
                yield here
            continue
        if here and not all(each.uid in together for each in here):
            together.update((each.uid, each) for each in here)
            yield list(together.values())


def _give_back(
    some: Sequence[Candidate], fits: Callable[[Collection[Candidate]], Search[bool]]
) -> Search[list[Candidate]]:
    left = list(some)
    for each in sorted(some, key=_order_given_back):
        others = [other for other in left if other is not each]
        if others and (yield from fits(others)):
            left = others
    return left


def _order_given_back(each: Candidate) -> tuple[int, int, str]:
    return -each.priority, each.holder.memory_bytes, str(each.holder.pod)


def _order_result(each: Candidate) -> tuple[int, str]:
    return -each.priority, str(each.holder.pod)
