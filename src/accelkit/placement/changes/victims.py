"""Search for the pods that must leave a node so that a pod of higher priority gets its cards.

The search removes the pods on the cards that can be freed at the lowest cost, or otherwise all candidates. It then
restores them one after the other: first those of the highest priority, then the small ones. None of the pods that
remain in the result can stay on the node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.changes.probe import Probe, Search, finish
from accelkit.placement.changes.situation import Holder, Situation
from accelkit.placement.policies import AnyPolicy

# Limits on a search for one node, and for all nodes of a pod: two seconds at about 25 microseconds per step.
STEPS_PER_NODE: Final = 4_000
MOST_STEPS: Final = 80_000
# Added to make each priority positive, as in kube-scheduler, so that in sums fewer pods outweigh lower priorities.
_LOWEST: Final = 2**31


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may have to leave.

    Attributes:
        holder: the pod, and the amounts that it holds.
        priority: the priority that the API server set in the pod at admission.
    """

    holder: Holder
    priority: int

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.holder.pod.uid


Rank = tuple[int, int, int, tuple[str, ...]]


def rank_victims(victims: Collection[Candidate]) -> Rank:
    """Return a sort key that orders sets of victims as kube-scheduler does, the best first.

    It compares the highest priority, then the sum of priorities, which usually prefers fewer pods, then memory. Names
    break ties, so that the choice is repeatable.
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
    """Return the pods that have to leave a node, the highest priority first; an empty list if none has to.

    Args:
        node: its cards, and the pods that hold them.
        request: the request of the pod.
        policy: the policy that ranks cards if the pod does not name one.
        candidates: the pods that may leave.
        budget: the steps for all trials; each trial subtracts its steps.
        gone: UIDs of pods that leave in any case.

    Returns:
        None if the pod would not fit without all candidates, or if the budget was spent before a set was found.
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
    """Search for the result of `find_victims`, and yield after each trial."""
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
    """Yield the candidates of each card; for several cards, growing sets that start with the cheapest cards."""
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
