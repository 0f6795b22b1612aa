"""Which pods have to leave a node, so that one of higher priority gets its cards there.

The pods of the cards that are freed most cheaply are taken away, or else all, and given back one after the other: first
those of the highest priority, then the small ones. So none of those that are left can stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.changes.probe import Probe, finish
from accelkit.placement.changes.situation import Holder, Situation
from accelkit.placement.policies import AnyPolicy

# What a search may take for one node, and for all nodes of a pod: at about 25 microseconds a step, two seconds.
STEPS_PER_NODE: Final = 4_000
MOST_STEPS: Final = 80_000
# Makes every priority positive, as kube-scheduler does: of sums, fewer pods then weigh more than lower priorities.
_LOWEST: Final = 2**31


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may have to leave.

    Attributes:
        holder: the pod, and what it holds.
        priority: as admission wrote it.
    """

    holder: Holder
    priority: int

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.holder.pod.uid


Rank = tuple[int, int, int, tuple[str, ...]]


def rank_victims(victims: Collection[Candidate]) -> Rank:
    """Return a sort key, the best victims first, in kube-scheduler's order.

    The lowest highest priority, the least sum of priorities, which is mostly the fewest pods, the least memory; then by
    name, so that the same is chosen again.
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
    """Return who has to leave a node, the highest priority first; nobody where the pod fits without.

    Args:
        node: its cards, and who holds them.
        request: what the pod asks for.
        policy: ranks cards where the pod does not say.
        candidates: those who may leave.
        budget: what all questions may cost; the steps taken are taken off.
        gone: UIDs of pods that leave anyway.

    Returns:
        None where the pod would not fit without all of them, or the budget was spent before anything was found.
    """
    probe = Probe(policy, budget)
    gone = frozenset(gone)

    def fits(left: Collection[Candidate]) -> bool:
        states = node.leave_out(gone | {each.uid for each in left})
        return bool(finish(probe.ask(states, request)))

    if fits(()):
        return []
    best: list[Candidate] | None = None
    for some in _list_sets(node, request, candidates):
        if (
            fits(some)
            and (found := _give_back(some, fits))
            and (best is None or rank_victims(found) < rank_victims(best))
        ):
            best = found
    if best is None and fits(candidates):
        best = _give_back(candidates, fits)
    return None if best is None else sorted(best, key=_order_told)


def _list_sets(node: Situation, request: PodRequest, candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """Yield the candidates of each card; where several cards are asked for, of more and more of those freed cheaply."""
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


def _give_back(some: Sequence[Candidate], fits: Callable[[Collection[Candidate]], bool]) -> list[Candidate]:
    left = list(some)
    for each in sorted(some, key=_order_given_back):
        others = [other for other in left if other is not each]
        if others and fits(others):
            left = others
    return left


def _order_given_back(each: Candidate) -> tuple[int, int, str]:
    return -each.priority, each.holder.memory_bytes, str(each.holder.pod)


def _order_told(each: Candidate) -> tuple[int, str]:
    return -each.priority, str(each.holder.pod)
