"""The ledger under any order of events."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from accelkit.errors import InventoryError
from accelkit.ledger.holding import ShareStage, UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.verdicts import ShapeVerdicts
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card, Health, Link
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.model.units import MAX_AMOUNT
from accelkit.placement.budget import Budget
from accelkit.placement.card_state import build_empty_states
from accelkit.placement.fit import place
from accelkit.placement.misfit import Misfit, MisfitError, MisfitReason
from accelkit.placement.policies import Policy

NODES = ["n0", "n1"]
PODS = [PodRef("d", f"p{number}", f"u{number}") for number in range(5)]
CARDS = st.builds(
    Card,
    st.sampled_from(["a", "b", "c"]),
    st.just("v"),
    st.sampled_from("mn"),
    st.sampled_from([None, 8, 16, 16]),
    st.sampled_from([0, 0, 2]),
    st.sampled_from([None, 0, 1]),
    links=st.lists(st.builds(Link, st.sampled_from("abc"), st.just("x")), max_size=1).map(tuple),
    health=st.sampled_from([Health.HEALTHY, Health.HEALTHY, Health.UNKNOWN, Health.UNHEALTHY]),
)
INVENTORIES = st.builds(
    Inventory,
    st.sampled_from([1, 1, 1, 1, 2]),
    st.lists(CARDS, max_size=3, unique_by=lambda card: card.id).map(tuple),
)
SIMPLE = st.builds(
    lambda cards, memory: PodRequest((ContainerRequest("c0", Kind.APP, cards, memory, whole=not memory),)),
    st.integers(1, 4),
    st.sampled_from([0, 1, 4, 8, 16, 17]),
)


@st.composite
def complex_requests(draw):
    order = sorted(draw(st.lists(st.sampled_from(Kind), min_size=1, max_size=3)), key=lambda kind: kind is Kind.APP)
    containers = []
    for number, kind in enumerate(order):
        memory = draw(st.sampled_from([0, 2, 4, 8]))
        containers.append(
            ContainerRequest(
                f"c{number}",
                kind,
                draw(st.sampled_from([1, 1, 2])),
                memory,
                draw(st.sampled_from([0, 400])) if memory else 0,
                whole=not memory,
                model=draw(st.sampled_from(["", "", "m"])),
                same_card_as=draw(st.sampled_from(["", f"c{number - 1}"])) if number else "",
                link=draw(st.sampled_from(["", "", "x"])),
                numa=draw(st.sampled_from(["", "", "single"])),
            )
        )
    return PodRequest(tuple(containers))


REQUESTS = SIMPLE | complex_requests()
AMOUNTS = st.sampled_from([0, 1, 8, 16, MAX_AMOUNT])
FOREIGN = st.dictionaries(
    st.sampled_from(["c0", "c1"]),
    st.lists(st.builds(Share, st.sampled_from("abcz"), AMOUNTS, st.sampled_from([0, 1000]), st.booleans()), max_size=2),
    max_size=2,
)


class LedgerMachine(RuleBasedStateMachine):
    """Events of the API server, and binds of the scheduler."""

    shapes = Bundle("shapes")

    def __init__(self):
        super().__init__()
        self.ledger = Ledger(unit_bytes=1)
        self.verdicts = ShapeVerdicts(self.ledger)
        self.bound_past_us = False

    @initialize(
        target=shapes,
        inventories=st.lists(INVENTORIES, min_size=2, max_size=2),
        shapes=st.lists(REQUESTS, min_size=3, max_size=3),
    )
    def start(self, inventories, shapes):
        for node, inventory in zip(NODES, inventories, strict=True):
            self.ledger.put_node(node, inventory)
        return multiple(*shapes)

    @rule(target=shapes, request=REQUESTS)
    def another_shape(self, request):
        return request

    @rule(
        pod=st.sampled_from(PODS),
        node=st.sampled_from([*NODES, "gone"]),
        request=shapes,
        policy=st.sampled_from(Policy),
    )
    def reserve(self, pod, node, request, policy):
        held = self.ledger.find_holding(pod.uid)
        before = self.state()
        answer = self.ask(pod, node, request, policy)
        if isinstance(answer, Misfit):
            assert self.state() == before
            assert (answer.reason is MisfitReason.HELD_ELSEWHERE) == (held is not None)
            return
        assert held is None or self.state() == before
        after = self.state()
        assert self.ask(pod, node, request, policy) == answer
        assert self.state() == after

    def ask(self, pod, node, request, policy):
        try:
            return self.ledger.reserve(pod, node, request, policy)
        except MisfitError as error:
            return error.misfit

    @rule(pod=st.sampled_from(PODS))
    def accept(self, pod):
        self.ledger.accept(pod.uid)
        held = self.ledger.find_holding(pod.uid)
        assert held is None or held.stage is not ShareStage.RESERVED

    @rule(pod=st.sampled_from(PODS))
    def confirm_what_was_reserved(self, pod):
        held = self.ledger.find_holding(pod.uid)
        if held is not None:
            order = [(name, Kind.APP) for name in held.assignment.containers]
            self.ledger.confirm(pod, held.node, held.assignment, order)
            assert self.ledger.find_holding(pod.uid).stage is ShareStage.CONFIRMED
            assert self.ledger.find_holding(pod.uid).charges == held.charges

    @rule(pod=st.sampled_from(PODS), node=st.sampled_from([*NODES, "elsewhere"]), containers=FOREIGN)
    def confirm_what_others_bound(self, pod, node, containers):
        self.bound_past_us = True
        assignment = Assignment({name: tuple(shares) for name, shares in containers.items()})
        self.ledger.confirm(pod, node, assignment, [("c0", Kind.INIT), ("c1", Kind.APP)])
        assert self.ledger.find_holding(pod.uid).node == node

    @rule(pod=st.sampled_from(PODS), node=st.sampled_from(NODES), request=shapes)
    def confirm_without_assignment(self, pod, node, request):
        self.bound_past_us = True
        self.ledger.confirm_unassigned(UnassignedPod(pod, node, request, "it has none"))
        assert self.ledger.find_holding(pod.uid) is None

    @rule(pod=st.sampled_from(PODS))
    def release(self, pod):
        self.ledger.release(pod.uid)
        assert not self.ledger.release(pod.uid)

    @rule(shown=st.sets(st.sampled_from(PODS)))
    def keep_pods(self, shown):
        shown = {pod.uid for pod in shown}
        held = {pod.uid: self.ledger.find_holding(pod.uid) for pod in PODS}
        young = self.ledger.keep_pods(shown)
        expected = {u for u, h in held.items() if h and h.stage is not ShareStage.CONFIRMED and u not in shown}
        assert {each.pod.uid for each in young} == expected
        for uid, each in held.items():
            assert each is None or (self.ledger.find_holding(uid) is not None) == (uid in shown | expected)

    @rule(node=st.sampled_from(NODES), inventory=INVENTORIES | st.sampled_from([None, InventoryError("garbled")]))
    def put_node(self, node, inventory):
        # Cards that shrink or go may leave pods over what is left; only what we reserve later is ours to answer for.
        self.bound_past_us = self.bound_past_us or bool(self.holdings(node))
        self.ledger.put_node(node, inventory)

    @rule(node=st.sampled_from(NODES))
    def drop_node(self, node):
        self.bound_past_us = self.bound_past_us or bool(self.holdings(node))
        self.ledger.drop_node(node)

    @rule(shown=st.sets(st.sampled_from(NODES)))
    def keep_nodes(self, shown):
        self.bound_past_us = self.bound_past_us or any(map(self.holdings, NODES))
        self.ledger.keep_nodes(shown)
        left = [entry for node in set(NODES) - shown if (entry := self.ledger.find_node(node))]
        assert all(entry.problem and (entry.holdings or entry.unassigned) for entry in left)

    @rule(request=consumes(shapes), policy=st.sampled_from(Policy))
    def judge(self, request, policy):
        self.agree(request, policy)

    @rule(request=shapes, policy=st.sampled_from(Policy))
    def judge_again(self, request, policy):
        self.agree(request, policy)

    def agree(self, request, policy):
        verdict = self.verdicts.judge(request, policy)
        for _ in self.verdicts.judge_stale(verdict, self.names(), Budget(10**6)):
            pass
        assert verdict.fits | verdict.failing.keys() <= set(self.names())
        for name in self.names():
            entry = self.ledger.find_node(name)
            expected = entry.refusal or place(entry.list_card_states(), request, policy)
            if isinstance(expected, Assignment):
                assert name in verdict.fits
                assert name not in verdict.failing
                continue
            assert name not in verdict.fits
            found = verdict.reasons[verdict.failing[name]]
            if entry.refusal:
                assert found == expected
                continue
            alone = place(build_empty_states(entry.list_cards()), request, policy)
            assert found.resolvable == isinstance(alone, Assignment)
            assert found.reason is (alone if isinstance(alone, Misfit) else expected).reason

    def names(self):
        return [name for name in self.ledger.list_node_names() if name]

    def holdings(self, node):
        entry = self.ledger.find_node(node)
        return entry.holdings if entry else {}

    def state(self):
        entries = [self.ledger.find_node(name) for name in self.names()]
        return {e.name: (e.inventory, e.problem, dict(e.uses), dict(e.holdings), dict(e.unassigned)) for e in entries}

    @invariant()
    def no_card_is_promised_twice(self):
        if not self.bound_past_us:
            for name in self.names():
                for state in self.ledger.find_node(name).list_card_states():
                    assert state.free_bytes >= 0
                    assert state.free_compute >= 0

    @invariant()
    def use_is_the_sum_of_the_charges(self):
        for name in self.names():
            entry, seen = self.ledger.find_node(name), {}
            for held in entry.holdings.values():
                for card, charge in held.charges.items():
                    seen.setdefault(card, []).append(charge)
            assert entry.uses.keys() == seen.keys()
            for card, charges in seen.items():
                use = entry.uses[card]
                assert use.used_bytes == sum(charge.memory_bytes for charge in charges)
                assert use.used_compute == sum(charge.compute for charge in charges)
                assert use.holders == len(charges)
                assert use.whole == any(charge.whole for charge in charges)

    @invariant()
    def a_pod_is_in_one_place(self):
        places = [uid for name in self.names() for uid in self.where(name)]
        assert len(places) == len(set(places)) == len(self.ledger)

    def where(self, name):
        entry = self.ledger.find_node(name)
        return [*entry.holdings, *entry.unassigned]

    @invariant()
    def the_table_shows_what_the_nodes_say(self):
        rows = {name: row for row, name in enumerate(self.ledger.list_node_names()) if name}
        assert rows.keys() == {entry.name for entry in self.ledger.list_nodes()}
        for name, row in rows.items():
            entry = self.ledger.find_node(name)
            assert entry.row == row
            assert self.ledger.find_node_at(row) is entry
            usable = [state for state in entry.list_card_states() if state.card.health is not Health.UNHEALTHY]
            assert self.ledger.table._empty[row] == sum(state.empty for state in usable)
            assert self.ledger.table._known[row] == (entry.refusal is None)
            assert 0 <= self.ledger.table.used_fraction[row] <= 1
            columns = self.ledger.table.get_columns()
            shown = usable if entry.refusal is None else []
            assert columns.empty[row].sum() == sum(state.empty for state in shown)
            assert columns.capacity[row].sum() == sum(state.card.capacity_bytes for state in shown)

    def teardown(self):
        for pod in PODS:
            self.ledger.release(pod.uid)
        for name in self.names():
            entry = self.ledger.find_node(name)
            assert (entry.uses, entry.holdings, entry.unassigned) == ({}, {}, {})
            assert entry.list_card_states() == build_empty_states(entry.list_cards())


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def test_containers_of_request_are_in_kubelet_allocation_order():
    containers = tuple(ContainerRequest(kind.value, kind, 1, 1) for kind in Kind)
    assert PodRequest(containers).order == [("init", Kind.INIT), ("sidecar", Kind.SIDECAR), ("app", Kind.APP)]
