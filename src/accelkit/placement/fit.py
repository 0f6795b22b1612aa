"""Decision on whether a pod fits the cards of one node, and which cards it gets.

The search is depth-first. It places containers in the kubelet's order, and tries cards in the policy's order.
Therefore, the first complete choice is the choice that the policy prefers.

The kubelet reuses the devices of a plain init container for subsequent containers before it allocates new devices.
Therefore, a subsequent container must use the cards in this pool. If the pool spans several cards and the container
does not need all devices, the kubelet selects the devices. In this case, the pod is rejected, because its cards cannot
be predicted.

The search does not repeat a failed choice. Containers with equal requests are interchangeable, and equivalent cards are
also interchangeable. After the first failure, the search compares the demand of the remaining containers with the
remaining amounts. Therefore, it does not try every arrangement for a pod with too many containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations_with_replacement

from accelkit.model.assignment import Assignment, Share
from accelkit.model.nic import is_near
from accelkit.model.request import MAX_CONTAINERS, ContainerRequest, PodRequest
from accelkit.model.units import WHOLE_COMPUTE
from accelkit.placement.budget import Budget, limit_steps
from accelkit.placement.card_state import CardState
from accelkit.placement.charges import CardTally, is_predictable
from accelkit.placement.demand import Demand, list_demands
from accelkit.placement.lacks import explain_lack, find_lacking_amount
from accelkit.placement.likeness import classify_cards, is_large, may_be_together
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.plugged_policies import PluggedPolicy
from accelkit.placement.policies import AnyPolicy, Policy, choose_policy, rank_card
from accelkit.placement.sharing.bars import describe_bars, is_ruled
from accelkit.placement.topology.choices import LinkedSets
from accelkit.placement.topology.links import CardLinks, find_links, restrict


def place(
    states: Sequence[CardState],
    request: PodRequest,
    policy: AnyPolicy,
    budget: Budget | None = None,
    links: CardLinks | None = None,
) -> Assignment | Misfit:
    """Return the cards for every container of a pod, or the reason why the pod does not fit.

    `Misfit.resolvable` is always True in this result. The caller must check in a second call whether the pod would fit
    the empty node.

    Args:
        states: the node's cards.
        request: the request of the pod.
        policy: the policy that ranks cards if the pod does not name one.
        budget: the remaining steps for all nodes, from which the search subtracts its steps; None for a search on a
            single node.
        links: the connections of the cards. If it is None, the policy `topology` uses any cards, and groups are derived
            only from the cards.
    """
    if len(request.containers) > MAX_CONTAINERS:
        return Misfit(MisfitReason.TOO_COMPLEX)
    grouped = any(container.groups for container in request.containers)
    if grouped and links is None:
        links = find_links([state.card for state in states])
    placeable = [state for state in states if state.card.placeable]
    if links is not None and len(placeable) < len(states):
        links = restrict(links, tuple(place for place, state in enumerate(states) if state.card.placeable))
    limit = limit_steps(len(placeable), request.containers)
    search = _Search(placeable, request, policy, limit if budget is None else min(limit, budget.steps), links)
    chosen = search.solve(0)
    if budget is not None:
        budget.steps -= search.steps
    elif chosen is None and search.is_spent and links is not None and not grouped:
        # The filter verb has found that the pod fits without regard to connections, so use any cards.
        return place(states, request, policy)
    return search.explain_misfit() if chosen is None else Assignment(chosen)


class _Search:
    """A depth-first search. The tallies contain the amounts that are assigned to preceding containers."""

    def __init__(
        self, states: Sequence[CardState], request: PodRequest, policy: AnyPolicy, limit: int, links: CardLinks | None
    ) -> None:
        self.steps = 0
        self._links = links
        self._limit = limit
        self._states = states
        self._containers = request.containers
        self._policy = policy
        self._tallies = [CardTally() for _ in states]
        self._chosen: dict[str, tuple[int, ...]] = {}
        self._named = {container.same_card_as for container in self._containers}
        ruled = [container for container in self._containers if is_ruled(container)]
        amounts = [(s.free_bytes, s.free_compute, s.empty, s.free_amounts, *map(s.find_bar, ruled)) for s in states]
        self._card_classes = classify_cards([state.card for state in states], amounts, self._containers)
        self._failed = set[tuple[object, ...]]()
        self._demands: list[tuple[Demand, Demand]] = []
        self._deepest = -1
        self._reason = Misfit(MisfitReason.MEMORY)

    def explain_misfit(self) -> Misfit:
        """Return the reason why no card fits the last container that the search reached."""
        return Misfit(MisfitReason.TOO_COMPLEX) if self.is_spent else self._reason

    @property
    def is_spent(self) -> bool:
        """Whether the search exceeded its limit on steps, so that there is no result for its node."""
        return self.steps > self._limit

    def solve(self, depth: int) -> dict[str, tuple[Share, ...]] | None:
        """Return cards for the containers from `depth` onwards; None if no choice of cards fits all of them."""
        if depth == len(self._containers):
            return {}
        state = None
        if self._failed:
            # A description includes every card, so hundreds of cards require additional steps. Real nodes do not have
            # so many cards.
            self.steps += len(self._states) // 32
            state = self._describe(depth)
        if state is not None and (state in self._failed or self._is_beyond(depth)):
            return None
        container = self._containers[depth]
        kept = self._tallies
        for cards in self._choices(container, depth):
            shares = tuple(self._share(container, index) for index in cards)
            self._tallies = [tally.copy() if index in cards else tally for index, tally in enumerate(kept)]
            for index, share in zip(cards, shares, strict=True):
                self._tallies[index].take(share, container.kind)
            self._chosen[container.container] = cards
            rest = self.solve(depth + 1)
            if rest is not None:
                return {container.container: shares, **rest}
            self._tallies = kept
            del self._chosen[container.container]
            if self.steps > self._limit:
                return None
        self._failed.add(state or self._describe(depth))
        return None

    def _describe(self, depth: int) -> tuple[object, ...]:
        """Return a key of all data that affects whether the containers from `depth` onwards can be placed."""
        return depth, *sorted(map(self._signature, range(len(self._states))))

    def _is_beyond(self, depth: int) -> bool:
        """Return whether the containers from `depth` onwards do not fit the remaining amounts in any arrangement."""
        if not self._demands:
            self._demands = list_demands(self._containers)
        memory, compute = self._demands[depth]
        left = [(s, t) for s, t in zip(self._states, self._tallies, strict=True) if not t.whole]
        return memory.exceeds([max(0, s.free_bytes - t.memory_bytes + t.memory_pool) for s, t in left]) or (
            compute.exceeds([max(0, s.free_compute - t.compute + t.compute_pool) for s, t in left])
        )

    def _choices(self, container: ContainerRequest, depth: int) -> Iterator[tuple[int, ...]]:
        pool = [i for i, t in enumerate(self._tallies) if (t.whole_pool if container.whole else t.memory_pool)]
        if not is_predictable(container, [self._tallies[i] for i in pool]):
            self._note(depth, Misfit(MisfitReason.REUSE, container.cards, container.container))
            return
        fitting = [i for i in range(len(self._states)) if self._fits(container, i)]
        missing = [i for i in pool if i not in fitting]
        if len(fitting) < container.cards or (missing and len(pool) <= container.cards):
            barred = self._find_bars(container) if is_ruled(container) else None
            self._note(depth, barred or explain_lack(self._states, self._tallies, container))
            return
        fitting = self._rank(container, fitting)
        candidates = iter(tuple[tuple[int, ...], ...]())
        if container.groups:
            grouped = self._link_sets(container, pool, fitting).list_grouped(container)
            candidates = (cards for cards in grouped if self._agree(container, cards, together=True))
        elif len(pool) > container.cards:
            # Only containers with whole cards reach this branch. The kubelet may select any card in the pool, so all of
            # its cards must fit.
            if missing or not self._agree(container, pool, together=container.cards > 1):
                self._note(depth, Misfit(MisfitReason.REUSE, container.cards, container.container))
                return
            candidates = self._subsets(container, (), [i for i in fitting if i in pool])
        elif self._agree(container, pool, together=True):
            candidates = self._subsets(container, tuple(pool), [i for i in fitting if i not in pool])
            if self._links is not None and self._policy_of(container) is Policy.TOPOLOGY:
                candidates = chain(self._list_linked(container, pool, fitting), candidates)
        found = False
        for cards in candidates:
            found = True
            yield cards
        if not found:
            self._note(depth, Misfit(MisfitReason.CONSTRAINT, container.cards, container.container))

    def _list_linked(
        self, container: ContainerRequest, pool: list[int], fitting: list[int]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the best connected sets. If the container prefers a NIC, yield the sets of cards near a NIC first."""
        near = [index for index in fitting if is_near(self._states[index].card.nic)] if container.nic else []
        if container.cards <= len(near) < len(fitting) and {*pool} <= {*near}:
            yield from self._link_sets(container, pool, near).list_best(container)
        yield from self._link_sets(container, pool, fitting).list_best(container)

    def _subsets(
        self, container: ContainerRequest, chosen: tuple[int, ...], others: Sequence[int]
    ) -> Iterator[tuple[int, ...]]:
        """Yield sets that extend `chosen` with cards from `others`, in order. Skip cards that violate a constraint."""
        missing = container.cards - len(chosen)
        if missing == 0:
            yield chosen
            return
        tried = set[tuple[object, ...]]()
        for position in range(len(others) - missing + 1):
            # Skip equivalent cards, because they fail in the same way.
            index = others[position]
            signature = self._signature(index)
            if signature in tried:
                continue
            tried.add(signature)
            self.steps += 1
            if self.steps > self._limit:
                return
            if all(self._pair_agrees(container, index, other) for other in (index, *chosen)):
                yield from self._subsets(container, (*chosen, index), others[position + 1 :])

    def _fits(self, container: ContainerRequest, index: int) -> bool:
        return self._has_room(container, index) and self._states[index].find_bar(container) is None

    def _has_room(self, container: ContainerRequest, index: int) -> bool:
        state, tally = self._states[index], self._tallies[index]
        card, least = state.card, container.min_memory_bytes
        if (container.model and card.model != container.model) or (least and not is_large(card, container)):
            return False
        if (container.allowed and card.number not in container.allowed) or card.number in container.denied:
            return False
        if container.same_card_as and index not in self._chosen.get(container.same_card_as, ()):
            return False
        if container.whole:
            untouched = tally.whole_pool or not (tally.whole or tally.memory_bytes or tally.compute)
            return state.empty and untouched
        memory = container.memory_bytes - min(tally.memory_pool, container.memory_bytes)
        compute = container.compute - min(tally.compute_pool, container.compute)
        return (
            not tally.whole
            and state.free_bytes - tally.memory_bytes >= memory
            and card.own_bytes >= container.memory_bytes
            # Pods may use more compute than the card has. This does not affect a container that does not request
            # compute.
            and (not compute or state.free_compute - tally.compute >= compute)
            # A card without memory to share can be used only by containers that request other amounts.
            and (card.capacity_bytes > 0 or bool(container.amounts and not container.memory_bytes))
            and not (container.amounts and find_lacking_amount(state, tally, container))
        )

    def _agree(self, container: ContainerRequest, cards: Iterable[int], *, together: bool) -> bool:
        """Return whether cards satisfy the container's constraints, both individually and as a set."""
        pairs = combinations_with_replacement(cards, 2) if together else ((index, index) for index in cards)
        return all(self._pair_agrees(container, a, b) for a, b in pairs)

    def _pair_agrees(self, container: ContainerRequest, one: int, other: int) -> bool:
        a, b = self._states[one].card, self._states[other].card
        return not (container.numa or container.link) or may_be_together(container, a, b)

    def _find_bars(self, container: ContainerRequest) -> Misfit | None:
        """Return the misfit that the sharing rules cause; None if too few cards would fit even without the rules."""
        roomy = [state for index, state in enumerate(self._states) if self._has_room(container, index)]
        if len(roomy) < container.cards:
            return None
        bars = [state.find_bar(container) for state in roomy]
        return describe_bars([bar for bar in bars if bar is not None], container, [each.reserved for each in roomy])

    def _link_sets(self, container: ContainerRequest, pool: list[int], fitting: list[int]) -> LinkedSets:
        cards, tallies = [state.card for state in self._states], enumerate(self._tallies)
        empty = [i for i, t in tallies if self._states[i].empty and not (t.whole or t.memory_bytes or t.compute)]
        ranks = [self._rank_bytes(container, index) for index in range(len(cards))]
        return LinkedSets(self._links, cards, pool, fitting, empty, ranks, self._spend)

    def _spend(self, steps: int) -> bool:
        self.steps += steps
        return not self.is_spent

    def _note(self, depth: int, misfit: Misfit) -> None:
        if depth > self._deepest:
            self._deepest, self._reason = depth, misfit

    def _policy_of(self, container: ContainerRequest) -> AnyPolicy:
        return choose_policy(container.policy, self._policy)

    def _rank(self, container: ContainerRequest, fitting: list[int]) -> list[int]:
        """Return the cards that fit, in the order of the policy."""
        policy = self._policy_of(container)
        if isinstance(policy, PluggedPolicy):
            return policy.order_cards(fitting, self._states, self._tallies, container)

        def order(index: int) -> tuple[bool, bool, tuple[int, int]]:
            card = self._states[index].card
            far = container.nic and not is_near(card.nic)
            return not card.preferred, far, rank_card(policy, self._rank_bytes(container, index), index)

        return sorted(fitting, key=order)

    def _rank_bytes(self, container: ContainerRequest, index: int) -> int:
        # Cards that can be assigned as whole cards are empty, so rank them by capacity. The smallest card fits best.
        state = self._states[index]
        return state.card.capacity_bytes if container.whole else state.free_bytes - self._tallies[index].memory_bytes

    def _signature(self, index: int) -> tuple[object, ...]:
        tally = self._tallies[index]
        return (
            self._card_classes[index],
            *(tally.memory_bytes, tally.memory_pool, tally.compute, tally.compute_pool, tally.whole, tally.whole_pool),
            *(tally.amounts, tally.amounts_pool),
            tuple(name for name in self._named if index in self._chosen.get(name, ())) if self._named else (),
        )

    def _share(self, container: ContainerRequest, index: int) -> Share:
        card = self._states[index].card
        if container.whole:
            return Share(card.id, card.capacity_bytes, WHOLE_COMPUTE, whole=True)
        return Share(card.id, container.memory_bytes, container.compute, amounts=container.amounts)
