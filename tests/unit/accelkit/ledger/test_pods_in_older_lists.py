"""A list that is older than a pod read by GET must not drop the pod."""

import msgspec
import pytest
from support.pods import build_pod
from support.requests import build_inventory

from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Share
from accelkit.model.pod import Pod
from accelkit.vendors.dialects import load_dialects


@pytest.mark.parametrize("assigned", [None, {"c": (Share("a", 16),)}])
def test_pod_read_after_list_was_made_stays_charged(assigned):
    ledger = Ledger(unit_bytes=1)
    ledger.put_node("n", build_inventory("a"))
    feed = LedgerFeed(ledger, load_dialects(("native",)))

    def pod(version, **more):
        return msgspec.convert(build_pod("p", memory=16, metadata={"resourceVersion": version}, **more), Pod)

    feed.take_pod_event("ADDED", pod("3"))
    # A GET request returns a newer version than the list.
    assert feed.take_pod(pod("7", nodeName="n", **({"assigned": assigned} if assigned else {})))
    assert ledger.find_node("n").list_card_states()[0].free_bytes == 0
    feed.replace_pods([pod("3")], "5")
    assert ledger.find_node("n").list_card_states()[0].free_bytes == 0
    assert feed.list_bound("n")
