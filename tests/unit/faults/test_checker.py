"""The checker of the fault laboratory reports each violation, of facts that were right and are then made wrong."""

import json
from dataclasses import replace

import pytest
from faults.checker import PATIENCE, Judge, Violation, check
from faults.facts import (
    Facts,
    build_alias,
    read_assignment,
    read_checkpoint,
    read_ledger,
    read_node,
    read_pod,
    read_quantity,
)

GIB = 2**30
MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"


def pod_item(name, limits, *, node="node-1", phase="Running", assigned=None, **changes):
    containers = [{"name": "main", "resources": {"limits": {key: str(value) for key, value in limits.items()}}}]
    annotations = {} if assigned is None else {"accelkit.io/assignment": json.dumps({"containers": assigned})}
    meta = {"namespace": "default", "name": name, "uid": f"uid-{name}", "annotations": annotations}
    spec = {"schedulerName": "default-scheduler", "containers": containers, **({"nodeName": node} if node else {})}
    return {
        "metadata": {**meta, **changes.get("meta", {})},
        "spec": {**spec, **changes.get("spec", {})},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z"},
    }


def node_item(name="node-1", cards=2, gib=16, **inventory):
    listed = [{"id": f"{name}-card-{number}", "memory_bytes": gib * GIB} for number in range(cards)]
    text = json.dumps({"version": 1, "unit_bytes": GIB, "cards": listed, **inventory})
    amounts = {MEMORY: str(cards * gib), CARDS: str(cards), "pods": "110"}
    return {
        "metadata": {"name": name, "annotations": {"accelkit.io/inventory": text}},
        "spec": {},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def share(card, gib=0):
    return {"card": card, "memory_bytes": gib * GIB} if gib else {"card": card, "memory_bytes": 0, "whole": True}


def devices(card, count, first=0):
    return tuple(f"{build_alias(card)}::{number}" for number in range(first, first + count))


def ledger_of(facts):
    """What an extender answers that counts exactly what the pods' assignments say."""
    nodes = []
    for node in facts.nodes.values():
        cards = []
        for card in node.cards.values():
            shares = [
                {
                    "namespace": pod.namespace,
                    "pod": pod.name,
                    "uid": pod.uid,
                    "container": container,
                    "memory_bytes": max(amount, 0),
                    "whole": amount < 0,
                    "stage": "confirmed",
                }
                for pod in facts.pods
                if pod.node == node.name and pod.holds
                for container, held in (pod.assigned or {}).items()
                for name, amount in held.items()
                if name == card.id
            ]
            view = {"id": card.id, "used_bytes": 0, "capacity_bytes": card.capacity, "known": True, "shares": shares}
            cards.append(view)
        nodes.append({"name": node.name, "cards": cards, "unassigned": []})
    return read_ledger({"nodes": nodes})


def with_ledger(facts):
    return replace(facts, ledger=ledger_of(facts))


def change_pod(facts, name, **changes):
    pods = tuple(replace(pod, **changes) if pod.name == name else pod for pod in facts.pods)
    return replace(facts, pods=pods)


@pytest.fixture
def facts():
    """Two pods share a card, a third has one alone, and everybody agrees."""
    first, second = "node-1-card-0", "node-1-card-1"
    items = [
        pod_item("a", {MEMORY: 10}, assigned={"main": [share(first, 10)]}),
        pod_item("b", {MEMORY: 6}, assigned={"main": [share(first, 6)]}),
        pod_item("c", {CARDS: 1}, assigned={"main": [share(second)]}),
    ]
    given = {
        "uid-a": {"main": {MEMORY: devices(first, 10)}},
        "uid-b": {"main": {MEMORY: devices(first, 6, first=10)}},
        "uid-c": {"main": {CARDS: (second,)}},
    }
    node = read_node(node_item())
    pods = tuple(read_pod(item) for item in items)
    return with_ledger(Facts(pods=pods, nodes={"node-1": node}, given={"node-1": given}, ledger=None))


def give(facts, uid, containers):
    given = {**facts.given["node-1"], uid: containers}
    if containers is None:
        del given[uid]
    return replace(facts, given={**facts.given, "node-1": given})


def kinds(facts, **options):
    return {violation.kind for violation in check(facts, **options)}


def test_consistent_facts_have_no_violation(facts):
    assert check(facts, expected={"uid-a": "default/a"}) == []


def test_card_overcommit_by_kubelet_allocation_is_reported(facts):
    more = give(facts, "uid-b", {"main": {MEMORY: devices("node-1-card-0", 7, first=10)}})
    (found,) = [each for each in check(more) if each.kind == "given_over_capacity"]
    assert (found.node, found.card) == ("node-1", "node-1-card-0")
    assert "default/a" in found.detail
    assert "default/b" in found.detail


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (devices("node-1-card-1", 6), "given_over_capacity"),
        (("zzzzz::1",), "given_over_capacity"),
        (devices("node-1-card-0", 6), "device_given_twice"),
        (devices("node-1-card-0", 5, first=10), "given_not_requested"),
        (None, "not_given"),
    ],
    ids=["memory of a whole card", "card that the node lacks", "devices of another pod", "other number", "no devices"],
)
def test_unexpected_devices_of_pod_are_reported(facts, given, kind):
    assert kind in kinds(give(facts, "uid-b", given and {"main": {MEMORY: given}}))


def test_devices_reused_from_init_container_are_counted_once(facts):
    ids = devices("node-1-card-0", 10)
    left = give(facts, "uid-a", {"main": {MEMORY: ids}, "first": {MEMORY: ids}})
    assert not kinds(left) & {"given_over_capacity", "device_given_twice"}


def test_pod_with_devices_on_two_nodes_is_reported(facts):
    other = read_node(node_item("node-2"))
    given = {**facts.given, "node-2": {"uid-a": {"main": {MEMORY: devices("node-2-card-0", 10)}}}}
    assert "given_on_two_nodes" in kinds(replace(facts, nodes={**facts.nodes, "node-2": other}, given=given))


def test_card_overcommit_by_assignments_is_reported(facts):
    more = change_pod(facts, "b", assigned={"main": {"node-1-card-0": 7 * GIB}})
    found = kinds(with_ledger(more))
    assert found == {"assigned_over_capacity", "assignment_differs"}


def test_assignment_of_whole_card_of_other_pod_is_reported(facts):
    more = change_pod(facts, "b", assigned={"main": {"node-1-card-1": 6 * GIB}})
    assert "assigned_over_capacity" in kinds(with_ledger(more))


def test_completed_pods_hold_no_cards(facts):
    more = change_pod(facts, "b", assigned={"main": {"node-1-card-0": 7 * GIB}}, phase="Succeeded")
    assert kinds(with_ledger(give(more, "uid-b", None))) == set()


@pytest.mark.parametrize(
    "assigned",
    [{"main": {"node-1-card-1": 6 * GIB}}, {"main": {"node-1-card-0": 5 * GIB}}, {}, None, {"(moving)": {"x": 1}}],
    ids=["another card", "another amount", "nothing", "unreadable", "left moving"],
)
def test_assignment_that_differs_from_kubelet_allocation_is_reported(facts, assigned):
    assert "assignment_differs" in kinds(change_pod(facts, "b", assigned=assigned))


def test_devices_of_deleted_pod_are_reported(facts):
    gone = give(facts, "uid-gone", {"main": {MEMORY: devices("node-1-card-1", 1)}})
    assert "given_to_no_pod" in kinds(gone)
    assert "given_to_no_pod" not in kinds(gone, exact_kubelets=False)


@pytest.mark.parametrize("change", ["missing", "other amount", "released pod", "twice", "other node", "unassigned"])
def test_ledger_that_differs_from_assignments_is_reported(facts, change):
    shares = list(facts.ledger.shares)
    changed = {
        "missing": shares[1:],
        "other amount": [replace(shares[0], amount=GIB), *shares[1:]],
        "released pod": [*shares, replace(shares[0], uid="uid-gone", pod="default/gone")],
        "twice": [*shares, shares[0]],
        "other node": [replace(shares[0], node="node-2"), *shares[1:]],
        "unassigned": shares,
    }[change]
    unassigned = frozenset({"uid-a"} if change == "unassigned" else ())
    ledger = replace(facts.ledger, shares=tuple(changed), unassigned=unassigned)
    assert kinds(replace(facts, ledger=ledger)) == {"ledger_differs"}


def test_ledger_with_different_card_capacity_is_reported(facts):
    capacity = {**facts.ledger.capacity, ("node-1", "node-1-card-0"): 15 * GIB}
    assert kinds(replace(facts, ledger=replace(facts.ledger, capacity=capacity))) == {"ledger_cards_differ"}


def test_missing_extender_ledger_is_reported(facts):
    assert kinds(replace(facts, ledger=None)) == {"ledger_silent"}


def test_reservation_of_pending_pod_is_reported(facts):
    waiting = read_pod(pod_item("d", {MEMORY: 20}, node="", phase="Pending"))
    reserved = replace(facts.ledger.shares[0], uid="uid-d", pod="default/d", bound=False)
    ledger = replace(facts.ledger, shares=(*facts.ledger.shares, reserved))
    assert kinds(replace(facts, pods=(*facts.pods, waiting), ledger=ledger)) == {"reserved_without_bind"}


def test_missing_pod_that_was_not_deleted_is_reported(facts):
    assert kinds(facts, expected={"uid-x": "default/x"}) == {"pod_lost"}


def waiting(facts, limits, **changes):
    """The facts without pod a, so that 10 of the 16 GiB of a card are free, and with a pod that waits."""
    pod = read_pod(pod_item("d", limits, node="", phase="Pending", **changes))
    fewer = tuple(each for each in facts.pods if each.name != "a")
    return with_ledger(give(replace(facts, pods=(*fewer, pod)), "uid-a", None))


def test_pending_pod_that_fits_is_reported(facts):
    assert kinds(waiting(facts, {MEMORY: 10})) == {"not_bound"}


@pytest.mark.parametrize(
    ("limits", "changes"),
    [
        ({MEMORY: 11}, {}),
        ({CARDS: 1}, {}),
        ({MEMORY: 1}, {"spec": {"nodeSelector": {"zone": "a"}}}),
        ({MEMORY: 1}, {"spec": {"schedulerName": "another"}}),
        ({MEMORY: 1}, {"meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ],
    ids=["too large", "no free card", "other nodes", "other scheduler", "deleted"],
)
def test_pending_pod_that_does_not_fit_is_accepted(facts, limits, changes):
    assert kinds(waiting(facts, limits, **changes)) == set()


@pytest.mark.parametrize("reason", ["takes no pods", "waits for its unit", "cards are ill"])
def test_pending_pod_is_accepted_when_node_is_unavailable(facts, reason):
    facts = waiting(facts, {MEMORY: 1})
    node = facts.nodes["node-1"]
    node = {
        "takes no pods": replace(node, schedulable=False),
        "waits for its unit": read_node(node_item(next_unit_bytes=2 * GIB)),
        "cards are ill": replace(node, cards={name: replace(card, usable=False) for name, card in node.cards.items()}),
    }[reason]
    assert kinds(replace(facts, nodes={"node-1": node})) == set()


def group(facts, count, size):
    labels = {
        "pod-group.scheduling.sigs.k8s.io/name": "train",
        "pod-group.scheduling.sigs.k8s.io/min-available": str(size),
    }
    items = [
        pod_item(f"g{number}", {MEMORY: 5}, node="", phase="Pending", meta={"labels": labels})
        for number in range(count)
    ]
    pods = tuple(replace(read_pod(item), name=f"g{number}", uid=f"uid-g{number}") for number, item in enumerate(items))
    fewer = tuple(each for each in facts.pods if each.name != "a")
    return with_ledger(give(replace(facts, pods=(*fewer, *pods)), "uid-a", None))


def test_pending_pod_group_that_fits_is_reported(facts):
    assert kinds(group(facts, 2, 2)) == {"not_bound"}


@pytest.mark.parametrize(("count", "size"), [(3, 3), (1, 2)], ids=["one does not fit", "one is missing"])
def test_incomplete_or_too_large_pod_group_may_remain_pending(facts, count, size):
    assert kinds(group(facts, count, size)) == set()


def test_unit_of_pod_is_unit_at_pod_start(facts):
    node = read_node(node_item(unit_bytes=2 * GIB, former_units=[{"unit_bytes": GIB, "until": 1_800_000_000}]))
    assert kinds(replace(facts, nodes={"node-1": node})) == set()


def test_pod_without_start_time_is_counted_in_smallest_unit(facts):
    node = read_node(node_item(unit_bytes=2 * GIB, former_units=[{"unit_bytes": GIB, "until": 1_800_000_000}]))
    fresh = change_pod(replace(facts, nodes={"node-1": node}), "a", started="")
    assert "given_over_capacity" not in kinds(fresh)


def test_judge_reports_overdue_violation_once():
    judge, violation = Judge(), Violation("assignment_differs", pod="default/a")
    last = PATIENCE["assignment_differs"]
    assert judge.observe([violation], 100, quiet_since=0) == []
    assert judge.observe([violation], 100 + last - 1, quiet_since=0) == []
    assert judge.observe([violation], 100 + last, quiet_since=0) == [violation]
    assert judge.observe([violation], 101 + last, quiet_since=0) == []


def test_judge_restarts_deadline_after_change_or_fault():
    judge, violation = Judge(), Violation("assignment_differs", pod="default/a")
    judge.observe([violation], 100, quiet_since=0)
    assert judge.observe([violation], 130, quiet_since=None) == []
    assert judge.observe([violation], 140, quiet_since=125) == []
    assert judge.observe([], 141, quiet_since=125) == []
    assert judge.observe([violation], 160, quiet_since=125) == []
    assert judge.observe([violation], 180, quiet_since=125) == [violation]


def test_judge_reports_kubelet_overcommit_during_faults():
    judge = Judge()
    first, last = (Violation("given_over_capacity", "node-1", "card", detail=detail) for detail in ("17", "18"))
    assert judge.observe([first], 100, quiet_since=None) == []
    assert judge.observe([last], 103, quiet_since=None) == [last]
    assert judge.observe([first], 104, quiet_since=None) == []


def test_read_checkpoint_returns_devices_of_accelkit_resources():
    entry = {"PodUID": "u", "ContainerName": "main", "ResourceName": MEMORY, "DeviceIDs": {"0": ["b", "a"], "1": ["a"]}}
    other = {**entry, "ResourceName": "example.com/nic"}
    data = json.dumps({"Data": {"PodDeviceEntries": [entry, other], "RegisteredDevices": {}}, "Checksum": 1})
    assert read_checkpoint(data.encode()) == {"u": {"main": {MEMORY: ("a", "b")}}}
    assert read_checkpoint(b'{"Data": {"PodDeviceEntries": null}}') == {}


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"containers": {"main": [{}]}}'])
def test_unreadable_assignment_is_read_as_none(text):
    assert read_assignment(text) is None


def test_read_quantity_accepts_only_whole_numbers():
    assert [read_quantity(text) for text in (3, "12", "2k", "1Gi")] == [3, 12, 2000, GIB]
    with pytest.raises(ValueError, match="not a whole number"):
        read_quantity("1500m")


def test_checker_imports_no_product_code():
    from pathlib import Path  # noqa: PLC0415

    import faults.checker as module  # noqa: PLC0415 - its folder is what is looked at

    folder = Path(module.__file__).parent
    for name in ("checker", "counting", "facts", "fitting", "reading"):
        assert "accelkit." not in "".join(
            line for line in (folder / f"{name}.py").read_text().splitlines() if line.startswith(("import", "from"))
        )
