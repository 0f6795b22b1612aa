import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nodes import read_node
from support.pods import build_container, make_ref, read_pod
from support.requests import build_request

from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.holding import ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.placement.misfit import MisfitReason
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialect

CARDS = (Card("a", "v", "m", 16), Card("b", "v", "m", 16))
INVENTORY = encode_inventory(Inventory(1, CARDS))
ONE = build_request(4)


def node(name="n", inventory=INVENTORY):
    return read_node(name, inventory)


def shares(card="a", memory=4, container="c"):
    return encode_assignment(Assignment({container: (Share(card, memory),)}))


def pod(name="p", *, on="n", assignment=None, memory=4, phase="", init=(), request=None):
    annotations = {ASSIGNMENT_ANNOTATION: assignment, "accelkit.io/request": request}
    limits = {"accelkit.io/memory": memory} if memory else {}
    return read_pod(
        name,
        build_container(limits),
        initContainers=[{"name": each} for each in init],
        metadata={"annotations": {key: value for key, value in annotations.items() if value is not None}},
        status={"phase": phase},
        nodeName=on,
    )


class World:
    def __init__(self):
        self.ledger = Ledger(unit_bytes=1)
        self.feed = LedgerFeed(self.ledger, [load_dialect("native")])

    def used(self, name="n"):
        return {card: use.used_bytes for card, use in self.ledger.find_node(name).uses.items()}

    def reserve(self, name="young"):
        self.ledger.reserve(make_ref(name), "n", ONE, Policy.BINPACK)


def free(world):
    return [state.free_bytes for state in world.ledger.find_node("n").list_card_states()]


@pytest.fixture
def world():
    world = World()
    world.feed.replace_nodes([node()])
    return world


def test_bound_pod_is_charged_to_assigned_card(world):
    world.feed.take_pod_event("ADDED", pod(assignment=shares("b")))
    assert world.used() == {"b": 4}
    assert world.ledger.find_holding("uid-p").stage is ShareStage.CONFIRMED


def test_assignment_of_unbound_pod_is_ignored(world):
    world.feed.take_pod_event("ADDED", pod(on="", assignment=shares("b")))
    assert world.used() == {}
    assert world.feed.pending["uid-p"].request == ONE


def test_pod_without_card_request_is_ignored(world):
    world.feed.take_pod_event("ADDED", pod(memory=0, assignment=shares("b")))
    world.feed.take_pod_event("ADDED", pod("q", on="", memory=0))
    assert (world.used(), world.feed.pending) == ({}, {})


@pytest.mark.parametrize("on", ["", "n"])
@pytest.mark.parametrize(("kind", "phase"), [("DELETED", ""), ("MODIFIED", "Succeeded"), ("MODIFIED", "Failed")])
def test_ended_or_deleted_pod_is_removed_from_ledger(world, on, kind, phase):
    world.feed.take_pod_event("ADDED", pod(on=on, assignment=shares()))
    world.feed.take_pod_event(kind, pod(on=on, assignment=shares(), phase=phase))
    assert (world.used(), world.feed.pending, len(world.ledger)) == ({}, {}, 0)


@pytest.mark.parametrize("text", [None, "garbage", '{"version": 9}', '{"version": 1, "later": ' + "[" * 90_000])
def test_bound_pod_without_valid_assignment_is_charged_to_every_card(world, text):
    world.feed.take_pod_event("ADDED", pod(assignment=text))
    assert free(world) == [12, 12]
    assert world.ledger.find_node("n").unassigned["uid-p"].problem


def test_late_assignment_replaces_charge_on_every_card(world):
    world.feed.take_pod_event("ADDED", pod())
    world.feed.take_pod_event("MODIFIED", pod(assignment=shares("b")))
    assert world.ledger.find_node("n").unassigned == {}
    assert free(world) == [16, 12]


def test_bound_pod_with_invalid_request_is_charged_by_its_limits(world):
    world.feed.take_pod_event("ADDED", pod(request='{"c": {"colour": "red"}}'))
    assert "unknown key 'colour'" in world.ledger.find_node("n").unassigned["uid-p"].problem
    assert free(world) == [12, 12]


def test_bound_pod_with_invalid_limits_is_reported_as_unassigned(world):
    world.feed.take_pod_event("ADDED", pod(memory="1e30"))
    assert "out of range" in world.ledger.find_node("n").unassigned["uid-p"].problem


def test_pending_pod_with_invalid_request_keeps_reason(world):
    world.feed.take_pod_event("ADDED", pod(on="", request='{"c": {"split": 3}}'))
    waiting = world.feed.pending["uid-p"]
    assert waiting.request is None
    assert "cannot be split evenly over 3 cards" in str(waiting.refusal)


@pytest.mark.parametrize("where", ["", "n"])
def test_deeply_nested_annotation_does_not_affect_other_pods(world, where):
    world.feed.take_pod_event("ADDED", pod(on=where, request='{"c": {"split": ' + "[" * 90_000))
    world.feed.take_pod_event("ADDED", pod("q", assignment=shares("b")))
    assert world.used() == {"b": 4}


def test_charge_is_maximum_of_init_and_app_containers(world):
    text = encode_assignment(Assignment({"i": (Share("a", 8),), "c": (Share("a", 4),)}))
    bound = pod(assignment=text, init=["i"])
    bound.spec.init_containers[0].resources.limits = {"accelkit.io/memory": "8"}
    world.feed.take_pod_event("ADDED", bound)
    assert world.used() == {"a": 8}


def test_pod_list_corrects_missed_events(world):
    for each in (pod("gone", assignment=shares()), pod("ended", assignment=shares()), pod("waits", on="")):
        world.feed.take_pod_event("ADDED", each)
    listed = [pod("ended", assignment=shares(), phase="Succeeded"), pod("waits", assignment=shares("b", 6), memory=6)]
    assert world.feed.replace_pods(listed) == []
    assert (world.used(), world.feed.pending) == ({"b": 6}, {})


def test_recreated_pod_with_same_name_is_a_new_pod(world):
    world.feed.take_pod_event("ADDED", pod(assignment=shares("a")))
    again = pod(assignment=shares("b"))
    again.metadata.uid = "uid-again"
    world.feed.take_pod_event("ADDED", again)
    world.feed.take_pod_event("DELETED", pod(assignment=shares("a")))
    assert world.used() == {"b": 4}


def test_unreadable_inventory_keeps_holdings_and_blocks_new_shares(world):
    world.feed.take_pod_event("ADDED", pod(assignment=shares()))
    world.feed.take_node_event("MODIFIED", node(inventory="garbage"))
    entry = world.ledger.find_node("n")
    assert entry.problem.reason is MisfitReason.BAD_INVENTORY
    assert (world.used(), entry.list_cards()) == ({"a": 4}, CARDS)
    world.feed.take_node_event("MODIFIED", node())
    assert entry.problem is None


def test_deleted_node_is_known_again_after_recreation(world):
    world.feed.take_pod_event("ADDED", pod(assignment=shares()))
    world.feed.take_node_event("DELETED", node())
    assert world.ledger.find_node("n").problem.reason is MisfitReason.UNKNOWN_NODE
    world.feed.take_node_event("ADDED", node())
    assert free(world) == [12, 16]


@pytest.mark.parametrize("text", [INVENTORY, "garbage"])
def test_node_missing_from_list_is_discarded_until_listed_again(world, text):
    world.feed.replace_nodes([node("m")])
    assert world.ledger.find_node("n") is None
    world.feed.replace_nodes([node("m"), node(inventory=text)])
    expected = MisfitReason.BAD_INVENTORY if text == "garbage" else None
    assert getattr(world.ledger.find_node("n").problem, "reason", None) is expected


def test_node_without_annotation_has_no_inventory(world):
    world.feed.take_node_event("MODIFIED", node(inventory=None))
    assert world.ledger.find_node("n").problem.reason is MisfitReason.NO_INVENTORY
    world.feed.take_node_event("MODIFIED", node())
    assert world.ledger.find_node("n").problem is None


def test_node_event_without_card_change_keeps_verdicts(world):
    for each in (node(), node("plain", None)):
        world.feed.take_node_event("MODIFIED", each)
        before = world.ledger.table.tick
        world.feed.take_node_event("MODIFIED", each)
        assert world.ledger.table.tick == before


def test_memory_unit_defaults_to_unit_of_node():
    ledger = Ledger()
    feed = LedgerFeed(ledger, [load_dialect("native")])
    feed.replace_nodes([node(inventory=json.dumps({**json.loads(INVENTORY), "unit_bytes": 3}))])
    feed.take_pod_event("ADDED", pod())
    assert ledger.find_node("n").unassigned["uid-p"].request.containers[0].memory_bytes == 12


def test_read_pending_returns_refusal_for_invalid_request(world):
    pending = world.feed.read_pending(pod(memory=-1, on=""))
    assert (pending.request, str(pending.refusal)) == (None, "container c: accelkit.io/memory: -1 is negative")


EVENTS = st.lists(
    st.tuples(st.sampled_from("pq"), st.sampled_from(["wait", "bound", "unassigned", "ended", "deleted"])), max_size=12
)


def show(name, state):
    if state == "wait":
        return pod(name, on="")
    assignment = None if state == "unassigned" else shares("ab"[name == "q"])
    return pod(name, assignment=assignment, phase="Failed" if state == "ended" else "")


@given(EVENTS, EVENTS)
def test_list_result_is_independent_of_earlier_events(seen, listed):
    world, fresh = World(), World()
    world.feed.replace_nodes([node()])
    fresh.feed.replace_nodes([node()])
    for name, state in seen:
        world.feed.take_pod_event("DELETED" if state == "deleted" else "MODIFIED", show(name, state))
    final = {name: show(name, state) for name, state in listed if state != "deleted"}
    for each in (world, fresh):
        each.feed.replace_pods(list(final.values()))
    assert world.ledger.find_node("n").list_card_states() == fresh.ledger.find_node("n").list_card_states()
    assert world.feed.pending == fresh.feed.pending
    assert len(world.ledger) == len(fresh.ledger)


def test_unassigned_pod_is_charged_without_its_split(world):
    world.feed.take_pod_event("ADDED", pod(memory=8, request='{"c": {"split": 2}}'))
    assert free(world) == [8, 8]


def test_unassigned_pod_with_conflicting_limits_blocks_all_cards(world):
    unassigned = pod()
    unassigned.spec.containers[0].resources.limits["accelkit.io/cards"] = 1
    world.feed.take_pod_event("ADDED", unassigned)
    states = world.ledger.find_node("n").list_card_states()
    assert all(state.free_bytes <= 0 and not state.empty for state in states)


@pytest.mark.parametrize("text", ['{"containers":{},"version":1}', shares(container="other")])
def test_incomplete_assignment_is_ignored(world, text):
    world.feed.take_pod_event("ADDED", pod(assignment=text))
    assert "contains no accelkit.io/memory for container c" in world.ledger.find_node("n").unassigned["uid-p"].problem
    assert free(world) == [12, 12]


def test_unreadable_inventory_is_logged_once(world, caplog):
    for _ in range(3):
        world.feed.take_node_event("MODIFIED", node(inventory="garbage"))
    for number in range(3):
        text = json.dumps({"version": 7, "later": number})
        world.feed.take_node_event("MODIFIED", node("newer", inventory=text))
    newer = [record for record in caplog.records if "inventory has version 7" in record.message]
    assert len(newer) == 1
    caplog.clear()
    for number in range(3):
        text = json.dumps({"version": 1, "unit_bytes": -1 - number, "cards": []})
        world.feed.take_node_event("MODIFIED", node("other", inventory=text))
    assert len([record for record in caplog.records if "inventory" in record.message]) == 1


def test_unassigned_pod_is_charged_in_unit_of_its_node(world):
    world.feed.take_node_event("MODIFIED", node(inventory=encode_inventory(Inventory(2, CARDS))))
    world.feed.take_pod_event("ADDED", pod(memory=4))
    assert world.ledger.find_node("n").unassigned["uid-p"].request.containers[0].memory_bytes == 8
    assert world.feed.read_pending(pod("q", on="")).request.containers[0].memory_bytes == 4


WHOLE = Share("b", 16, 1000, whole=True)


def asking(limits, *given):
    asked = pod(assignment=encode_assignment(Assignment({"c": given})))
    asked.spec.containers[0].resources.limits.clear()
    asked.spec.containers[0].resources.limits.update(limits)
    return asked


@pytest.mark.parametrize(
    ("resource", "given"),
    [("accelkit.io/memory", WHOLE), ("accelkit.io/cards", Share("b", 4))],
    ids=["memory", "cards"],
)
def test_assignment_of_other_resource_is_rejected(world, resource, given):
    world.feed.take_pod_event("ADDED", asking({resource: 1}, given))
    assert f"contains no {resource} for container c" in world.ledger.find_node("n").unassigned["uid-p"].problem


def test_assignment_of_both_resources_is_accepted_if_both_were_requested(world):
    world.feed.take_pod_event("ADDED", asking({"accelkit.io/memory": 4, "accelkit.io/cards": 1}, Share("a", 4), WHOLE))
    assert world.used() == {"a": 4, "b": 16}


def versioned(version, **options):
    found = pod(**options)
    found.metadata.resource_version = str(version)
    return found


def test_older_pod_version_is_ignored_from_response_and_watch(world):
    world.feed.take_pod_event("ADDED", versioned(5, assignment=shares("a")))
    world.feed.take_pod_event("MODIFIED", versioned(7, assignment=shares("b")))
    assert not world.feed.take_pod(versioned(6, assignment=shares("a")))
    assert world.used() == {"b": 4}
    assert world.ledger.find_holding("uid-p").stage is ShareStage.CONFIRMED
    assert world.feed.take_pod(versioned(8, assignment=shares("a")))
    # The watch lags behind the answer.
    world.feed.take_pod_event("MODIFIED", versioned(7, assignment=shares("b")))
    assert world.used() == {"a": 4}


def test_response_does_not_restore_deleted_pod(world):
    world.feed.take_pod_event("ADDED", versioned(5, assignment=shares("a")))
    world.feed.take_pod_event("DELETED", versioned(7, assignment=shares("a")))
    assert not world.feed.take_pod(versioned(6, assignment=shares("a")))
    assert (world.used(), len(world.ledger)) == ({}, 0)


def test_older_list_does_not_unbind_bound_pod(world):
    world.feed.take_pod_event("ADDED", versioned(3, on=""))
    assert world.feed.take_pod(versioned(6, assignment=shares("a")))
    assert world.feed.replace_pods([versioned(3, on="")], "4") == [world.ledger.find_holding("uid-p")]
    assert (world.used(), world.feed.pending) == ({"a": 4}, {})


def test_pod_missing_from_older_list_is_kept(world):
    world.feed.take_pod_event("ADDED", versioned(8, assignment=shares("a")))
    world.feed.replace_pods([], "7")
    assert world.used() == {"a": 4}
    world.feed.replace_pods([], "8")
    assert world.used() == {}


def test_pod_from_response_remains_unconfirmed_after_inventory_change(world):
    world.feed.take_pod(pod(assignment=shares("a")))
    world.feed.replace_nodes([node(inventory=encode_inventory(Inventory(1, CARDS[:1])))])
    assert world.ledger.find_holding("uid-p").stage is ShareStage.BOUND
    assert [held.pod.name for held in world.feed.replace_pods([])] == ["p"]


def test_bound_pods_of_disabled_dialect_are_counted(world):
    former = pod(assignment=shares("a"), memory=0)
    former.spec.containers[0].resources.limits = {"enflame.com/gcu-memory": "4"}
    world.feed.trim_pod(former)
    world.feed.take_pod_event("ADDED", former)
    assert world.used() == {"a": 4}
    waiting = pod("w", on="", memory=0)
    waiting.spec.containers[0].resources.limits = {"enflame.com/gcu-memory": "4"}
    world.feed.take_pod_event("ADDED", waiting)
    assert (world.feed.read_pending(waiting), world.feed.pending) == (None, {})
    past = pod("past", memory=0)
    past.spec.containers[0].resources.limits = {"enflame.com/gcu-count": "1"}
    world.feed.take_pod_event("ADDED", past)
    assert free(world) == [12, 0]
