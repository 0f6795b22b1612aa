"""The invariants of "counted exactly", computed from facts alone.

Shares no code with accelkit: a mistake of the product must not be one of the checker as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from faults.counting import count_assigned, count_given, list_given
from faults.facts import WHOLE, Facts, Given, Node, Pod, Shares
from faults.fitting import find_pods_that_fit

# For how many seconds without a fault each violation may last. What kubelets gave is right at all times; that it is
# wrong has to be seen more than once, since kubelets and nodes are not read in the same moment.
PATIENCE = {
    "given_over_capacity": 3.0,
    "device_given_twice": 0.5,
    "given_on_two_nodes": 0.5,
    "assigned_over_capacity": 20.0,
    "assignment_differs": 20.0,
    "given_not_requested": 20.0,
    "not_given": 20.0,
    "given_to_no_pod": 20.0,
    "ledger_differs": 20.0,
    "ledger_cards_differ": 20.0,
    "ledger_silent": 40.0,
    "reserved_without_bind": 90.0,
    "pod_lost": 0.5,
    "pod_refused": 0.0,
    "not_bound": 60.0,
    "never_calm": 0.0,
    "audit_disagrees": 0.0,
    "process_ended": 0.0,
    "footprint_grows": 0.0,
}
# These hold at all times, faults or not, and whatever else changes meanwhile.
IMMEDIATE = frozenset(kind for kind, seconds in PATIENCE.items() if seconds <= 3.0)


@dataclass(frozen=True, order=True)
class Violation:
    """An invariant that does not hold; `detail` says by which amounts, and changes as soon as one of them does."""

    kind: str
    node: str = ""
    card: str = ""
    pod: str = ""
    detail: str = ""

    def __str__(self) -> str:
        places = [f"{name}={value}" for name, value in (("node", self.node), ("card", self.card), ("pod", self.pod))]
        named = [each for each in places if not each.endswith("=")]
        return " ".join([self.kind, *named]) + f": {self.detail}"


def check(facts: Facts, *, expected: Mapping[str, str] | None = None, exact_kubelets: bool = True) -> list[Violation]:
    """Return what does not hold just now, which may be on its way to be put right.

    Args:
        facts: what was read.
        expected: name by UID of the pods that were created and that nobody has ended or deleted.
        exact_kubelets: whether kubelets forget a pod that has ended at once; a real one forgets it at the next
            admission.
    """
    return sorted(
        {
            *_check_kubelets(facts, exact=exact_kubelets),
            *_check_assignments(facts),
            *_check_given(facts, exact_kubelets=exact_kubelets),
            *_check_ledger(facts),
            *_check_lost(facts, expected or {}),
            *(
                Violation("not_bound", pod=pod.path, detail="fits and is not bound")
                for pod in find_pods_that_fit(facts)
            ),
        }
    )


def _check_kubelets(facts: Facts, *, exact: bool) -> Iterator[Violation]:
    pods = {pod.uid: pod for pod in facts.pods}
    nodes_of: dict[str, list[str]] = defaultdict(list)
    for name, given in sorted(facts.given.items()):
        # Pods that have ended hold nothing, whatever a kubelet has not forgotten yet.
        holding = {uid: held for uid, held in given.items() if (pods[uid].holds if uid in pods else exact)}
        for uid in holding:
            nodes_of[uid].append(name)
        if (node := facts.nodes.get(name)) is not None:
            yield from _check_kubelet(node, holding, pods)
    for uid, names in nodes_of.items():
        if len(names) > 1:
            yield Violation("given_on_two_nodes", pod=_name({uid}, pods), detail=", ".join(names))


def _check_kubelet(node: Node, given: Mapping[str, Given], pods: Mapping[str, Pod]) -> Iterator[Violation]:
    owners: dict[tuple[str, str], set[str]] = defaultdict(set)
    amounts: dict[str, dict[str, int]] = defaultdict(dict)
    for uid, containers in given.items():
        for resources in containers.values():
            for resource, devices in resources.items():
                for device in devices:
                    owners[resource, device].add(uid)
        for card, amount in count_given(node, pods.get(uid), containers).items():
            amounts[card][_name({uid}, pods)] = amount
    for (resource, device), uids in owners.items():
        if len(uids) > 1:
            yield Violation("device_given_twice", node.name, pod=_name(uids, pods), detail=f"{device} of {resource}")
    for card, by_pod in amounts.items():
        yield from _check_card("given_over_capacity", node, card, by_pod)


def _check_assignments(facts: Facts) -> Iterator[Violation]:
    for node in facts.nodes.values():
        amounts: dict[str, dict[str, int]] = defaultdict(dict)
        for pod in facts.pods:
            if pod.node == node.name and pod.holds:
                for card, amount in count_assigned(pod).items():
                    amounts[card][pod.path] = amount
        for card, by_pod in amounts.items():
            yield from _check_card("assigned_over_capacity", node, card, by_pod)


def _check_card(kind: str, node: Node, card: str, by_pod: Mapping[str, int]) -> Iterator[Violation]:
    capacity = node.cards[card].capacity if card in node.cards else 0
    whole = [pod for pod, amount in by_pod.items() if amount == WHOLE]
    held = sum(amount for amount in by_pod.values() if amount != WHOLE)
    parts = ", ".join(f"{pod} {'all' if amount == WHOLE else amount}" for pod, amount in sorted(by_pod.items()))
    if card not in node.cards:
        yield Violation(kind, node.name, card, detail=f"the node has no such card: {parts}")
    elif held > capacity or (whole and len(by_pod) > 1):
        yield Violation(kind, node.name, card, detail=f"{held} of {capacity} bytes: {parts}")


def _check_given(facts: Facts, *, exact_kubelets: bool) -> Iterator[Violation]:
    pods = {pod.uid: pod for pod in facts.pods}
    for name, given in facts.given.items():
        node = facts.nodes.get(name)
        for pod in (each for each in facts.pods if each.node == name and each.holds):
            held = given.get(pod.uid)
            if held is None:
                if pod.phase == "Running":
                    yield Violation("not_given", name, pod=pod.path, detail="runs and its kubelet gave it nothing")
                continue
            yield from _check_numbers(pod, held)
            if node is not None and not pod.deleting:
                yield from _compare(pod, pod.assigned or {}, list_given(node, pod, held))
        if exact_kubelets:
            for uid in given:
                if uid not in pods or pods[uid].node != name or not pods[uid].holds:
                    owner = _name({uid}, pods)
                    yield Violation("given_to_no_pod", name, pod=owner, detail="holds devices and does not run here")


def _check_numbers(pod: Pod, held: Given) -> Iterator[Violation]:
    asked = {each.name: {name: number for name, number in each.resources.items() if number} for each in pod.containers}
    given = {
        container: {name: len(devices) for name, devices in resources.items()} for container, resources in held.items()
    }
    if asked != given:
        yield Violation("given_not_requested", pod.node, pod=pod.path, detail=f"asked for {asked}, got {given}")


def _compare(pod: Pod, assigned: Mapping[str, Shares], given: Mapping[str, Shares]) -> Iterator[Violation]:
    for container in sorted(assigned.keys() | given.keys()):
        ours, theirs = dict(assigned.get(container, {})), dict(given.get(container, {}))
        if ours != theirs:
            detail = f"[{container}] assigned {_describe(ours)}, its kubelet gave {_describe(theirs)}"
            yield Violation("assignment_differs", pod.node, pod=pod.path, detail=detail)


def _check_ledger(facts: Facts) -> Iterator[Violation]:
    ledger = facts.ledger
    if ledger is None:
        yield Violation("ledger_silent", detail="no leading extender answers")
        return
    pods = {pod.uid: pod for pod in facts.pods}
    expected = Counter(
        (pod.node, card, pod.uid, container, amount)
        for pod in facts.pods
        if pod.holds
        for container, shares in (pod.assigned or {}).items()
        for card, amount in shares.items()
    )
    counted: Counter[tuple[str, str, str, str, int]] = Counter()
    for share in ledger.shares:
        pod = pods.get(share.uid)
        if not share.bound and pod is not None and not pod.node:
            yield Violation("reserved_without_bind", share.node, share.card, share.pod, "is reserved and not bound")
        else:
            counted[share.node, share.card, share.uid, share.container, share.amount] += 1
    for sign, difference in (
        ("counts and no assignment says", counted - expected),
        ("does not count", expected - counted),
    ):
        for (node, card, uid, container, amount), _ in sorted(difference.items()):
            detail = f"the ledger {sign} {'all' if amount == WHOLE else amount} for [{container}]"
            yield Violation("ledger_differs", node, card, _name({uid}, pods), detail)
    for uid in sorted(ledger.unassigned):
        if uid not in pods or not pods[uid].holds or pods[uid].assigned is not None:
            yield Violation("ledger_differs", pod=_name({uid}, pods), detail="the ledger holds it as unassigned")
    cards = {(node.name, card.id): card.capacity for node in facts.nodes.values() for card in node.cards.values()}
    if cards != dict(ledger.capacity):
        different = sorted(set(cards.items()) ^ set(ledger.capacity.items()))
        yield Violation("ledger_cards_differ", detail=f"{different}")


def _check_lost(facts: Facts, expected: Mapping[str, str]) -> Iterator[Violation]:
    seen = {pod.uid for pod in facts.pods}
    for uid, name in expected.items():
        if uid not in seen:
            yield Violation("pod_lost", pod=name, detail=f"was created as {uid}, nobody deleted it, and it is gone")


def _name(uids: Collection[str], pods: Mapping[str, Pod]) -> str:
    return ", ".join(sorted(pods[uid].path if uid in pods else f"uid {uid}" for uid in uids))


def _describe(shares: Shares) -> str:
    return ", ".join(f"{'all' if n == WHOLE else n} of {card}" for card, n in sorted(shares.items())) or "nothing"


class Judge:
    """Decides which violations last too long: an amount that changes begins anew, and so does a fault."""

    def __init__(self) -> None:
        self._since: dict[Violation, float] = {}
        self._told: set[Violation] = set()

    @staticmethod
    def _identify(each: Violation) -> Violation:
        """Return what makes it the same one at another look: where kubelets gave too much, the amounts may change."""
        return replace(each, detail="") if each.kind in IMMEDIATE else each

    def observe(
        self, found: Sequence[Violation], now: float, quiet_since: float | None, *, exact_now: float | None = None
    ) -> list[Violation]:
        """Return those that are overdue and were not returned before.

        Args:
            found: what does not hold now.
            now: seconds, as `quiet_since`; of a clock that may leave out time in which the machine stood still.
            quiet_since: when the last fault ended; None while there is one.
            exact_now: seconds of a clock that leaves out nothing, for what must hold at all times.
        """
        exact = now if exact_now is None else exact_now
        times = {self._identify(each): exact if each.kind in IMMEDIATE else now for each in found}
        self._since = {key: self._since.get(key, time) for key, time in times.items()}
        new = [
            each
            for each in found
            if (key := self._identify(each)) not in self._told
            and self._is_overdue(each, self._since[key], times[key], quiet_since)
        ]
        self._told.update(map(self._identify, new))
        return sorted(new)

    def _is_overdue(self, each: Violation, since: float, now: float, quiet_since: float | None) -> bool:
        patience = PATIENCE[each.kind]
        if each.kind in IMMEDIATE:
            return now - since >= patience
        return quiet_since is not None and now - max(since, quiet_since) >= patience
