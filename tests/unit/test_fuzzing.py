"""A little of what `scripts/fuzz.py` runs by the million, and that it would notice."""

import pytest
from fuzzing.leftovers import find_empty_shells, find_leftovers
from fuzzing.runs import OBJECTS_PER_ROUND, SUBJECTS, run_rounds

from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.holding import NodeEntry
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import PodRef
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.pod_reading import CardPod

SEED, ROUNDS = 21, 5


@pytest.mark.parametrize("subject", SUBJECTS)
def test_hostile_objects_cause_no_errors_and_no_leftovers(subject):
    tally, findings = run_rounds(subject, SEED, range(ROUNDS))
    assert not findings.by_kind, "\n".join(text for *_, text in findings.by_kind.values())
    assert tally.objects >= ROUNDS * OBJECTS_PER_ROUND


def test_most_generated_objects_are_readable_and_bindable():
    tally, _ = run_rounds("cluster/native", SEED, range(ROUNDS))
    assert tally.counts["unreadable"] < tally.objects / 10
    assert tally.counts["bind refused"] < 0.8 * tally.counts["bind"]


def test_same_seed_generates_same_objects():
    assert run_rounds("kubelet/native", 1, [3])[0].counts == run_rounds("kubelet/native", 1, [3])[0].counts
    assert run_rounds("kubelet/native", 1, [3])[0].counts != run_rounds("kubelet/native", 2, [3])[0].counts


def kinds(subject):
    return set(run_rounds(subject, SEED, range(ROUNDS))[1].by_kind)


def test_exception_is_reported_with_its_location(monkeypatch):
    monkeypatch.setattr(CardPod, "read_request", lambda *_: 1 // 0)
    assert any("ZeroDivisionError in accelkit/" in kind for kind in kinds("cluster/gas"))


def test_deleted_pod_that_still_holds_cards_is_reported(monkeypatch):
    monkeypatch.setattr(LedgerFeed, "_remove_pod", lambda *_: None)
    assert "a pod that was deleted still holds cards" in kinds("cluster/native")


def test_bound_pod_without_charge_is_reported(monkeypatch):
    monkeypatch.setattr(Ledger, "confirm_unassigned", lambda *_: None)
    assert "a bound pod that asks for cards is not charged" in kinds("cluster/native")


def test_wrong_sum_of_card_usage_is_reported(monkeypatch):
    monkeypatch.setattr(NodeEntry, "charge", lambda *_: None)
    assert "what is used of a card is not what pods are charged" in kinds("cluster/native")


def test_invalid_preferred_devices_are_reported(monkeypatch):
    monkeypatch.setattr(DevicePlugin, "_prefer", lambda *_: ["GPU-0::0", "nobody's"])
    assert "devices are preferred that cannot be given" in kinds("kubelet/native")


def test_leftovers_are_found_in_nested_objects():
    ledger = Ledger(unit_bytes=1)
    feed = LedgerFeed(ledger, load_dialects(["native"]))
    feed.created["gone"] = ""
    ledger.extra = {"a": [(PodRef("d", "p", "gone"),)]}
    feed.empty = {"n": {}}
    assert find_leftovers(feed, "gone".__eq__) == ["._ledger.extra['a'][][].uid", ".created{'gone'}"]
    assert find_empty_shells(feed) == [".empty['n']"]
