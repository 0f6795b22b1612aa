"""Cards that are freed by `accelkit defrag` go to the pod for which they were freed."""

import copy
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from preempting_cluster import REFUSED, PreemptingCluster

from accelkit.extender.pod_watch import PodWatch
from accelkit.extender.preemption.holds import Holds
from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args
from accelkit.ledger.claims import reserve
from accelkit.ledger.holding import ShareStage
from accelkit.model.hold import HOLD_CONDITION, MOST_HOLD_SECONDS, Hold
from accelkit.model.pod import Pod
from accelkit.placement.misfit import MisfitError
from accelkit.placement.policies import Policy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOON = NOW + timedelta(minutes=5)


class Holding(PreemptingCluster):
    """The cluster with the holds of its pods, on a clock that is set; nodes have two cards of 8 units."""

    def __init__(self, *nodes):
        super().__init__(*nodes)
        self.now, self.items = NOW, {}
        self.holds = Holds(self.ledger, self.feed, Policy.BINPACK, lambda: self.now.timestamp())  # noqa: PLW0108 - the time is set later
        self.watch = PodWatch(self.ledger, self.feed, self.holds)
        self.verbs = Verbs(self.ledger, self.feed, Policy.BINPACK)

    def waits(self, name, memory, priority=0, hold=None, **of):
        """A pod that waits, as the watch shows it."""
        item = self.pod(name, memory, priority, status=self.status(hold), **of)
        self.show(item)
        return item

    @staticmethod
    def status(hold):
        return {"conditions": [*REFUSED["conditions"], *([] if hold is None else [hold.build_condition()])]}

    def show(self, item, kind="MODIFIED"):
        pod = msgspec.convert(copy.deepcopy(item), Pod)
        self.feed.trim_pod(pod)
        self.watch.take_event(kind, pod)

    async def fits(self, item):
        args = msgspec.convert({"Pod": item, "NodeNames": ["n"]}, Args)
        return (await self.verbs.filter(args)).NodeNames == ["n"]

    def claimed(self, name):
        held = self.ledger.find_holding(f"uid-{name}")
        return held is not None and held.stage is ShareStage.CLAIMED


def full(*nodes):
    """A cluster with both cards taken, and a pod of the highest priority that waits without a hold."""
    cluster = Holding(*nodes)
    cluster.pod("one", 6, 0, "a")
    cluster.pod("two", 6, 0, "b")
    return cluster, cluster.waits("urgent", 6, 1000)


def hold(node="n", until=SOON, evicted=("uid-one",)):
    return Hold(node, until, tuple(evicted))


async def test_held_cards_fit_only_the_pod_with_the_hold():
    cluster, urgent = full()
    cluster.show(urgent | {"status": cluster.status(hold())})
    assert cluster.claimed("urgent")
    assert not await cluster.fits(urgent)
    cluster.leave("one")
    # Each of the verbs looks at the same ledger, so bind refuses too, whatever filter answered before.
    for priority in (0, 1000, 5000):
        again = cluster.waits(f"again-{priority}", 6, priority)
        assert not await cluster.fits(again)
        pending = cluster.feed.pending[f"uid-again-{priority}"]
        with pytest.raises(MisfitError):
            reserve(cluster.ledger, pending.pod.ref, "n", pending.request, Policy.BINPACK)
    assert await cluster.fits(urgent)
    pending = cluster.feed.pending["uid-urgent"]
    got = reserve(cluster.ledger, pending.pod.ref, "n", pending.request, Policy.BINPACK)
    assert [share.card for share in got.containers["c"]] == ["a"]


async def test_replacement_pod_fits_freed_card_without_hold():
    cluster, _ = full()
    cluster.leave("one")
    assert await cluster.fits(cluster.waits("again", 6))


@pytest.mark.parametrize("nodes_first", [True, False], ids=["nodes first", "pods first"])
async def test_starting_replica_reads_hold_from_first_lists(nodes_first):
    cluster, urgent = full()
    cluster.show(urgent | {"status": cluster.status(hold())})
    cluster.leave("one")
    again = cluster.waits("again", 6)
    fresh = Holding("elsewhere")
    stored = [cluster.api.objects[f"/api/v1/namespaces/d/pods/{name}"] for name in ("two", "again")]
    pods = [msgspec.convert(copy.deepcopy(each), Pod) for each in stored]
    pods.append(msgspec.convert(urgent | {"status": cluster.status(hold())}, Pod))
    for each in pods:
        fresh.feed.trim_pod(each)
    steps = [lambda: fresh.feed.replace_nodes([fresh.build_node("n")]), lambda: fresh.watch.replace(pods)]
    for step in steps if nodes_first else steps[::-1]:
        step()
    if not nodes_first:
        fresh.holds.review()
    assert fresh.claimed("urgent")
    assert not await fresh.fits(again)
    assert await fresh.fits(urgent)


def test_hold_ends_on_expiry_deletion_termination_or_removed_condition():
    cluster, urgent = full()
    held = urgent | {"status": cluster.status(hold())}
    ending = {**held, "metadata": {**held["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    for kind, item in (("MODIFIED", ending), ("MODIFIED", urgent), ("DELETED", held)):
        cluster.show(held)
        assert cluster.claimed("urgent")
        cluster.show(item, kind)
        cluster.holds.review()
        assert not cluster.claimed("urgent")
    cluster, urgent = full()
    cluster.show(urgent | {"status": cluster.status(hold())})
    cluster.now = SOON
    cluster.holds.review()
    assert cluster.ledger.find_holding("uid-urgent") is None


def test_hold_moves_to_another_node_and_ends_when_pod_is_bound():
    cluster, urgent = full("n", "m")
    cluster.show(urgent | {"status": cluster.status(hold())})
    cluster.show(urgent | {"status": cluster.status(hold("m"))})
    assert cluster.ledger.find_holding("uid-urgent").node == "m"
    cluster.pod("urgent", 6, 1000, "a", node="m")
    cluster.holds.note("uid-urgent")
    assert cluster.ledger.find_holding("uid-urgent").stage is ShareStage.CONFIRMED


@pytest.mark.parametrize(
    "wrong",
    [
        hold(until=NOW + timedelta(seconds=MOST_HOLD_SECONDS + 1)),
        hold(until=NOW - timedelta(seconds=1)),
        hold(until=SOON.replace(tzinfo=None)),
        hold("unknown"),
        hold(evicted=["uid-nobody"]),
    ],
    ids=["too long", "over", "without a time zone", "another node", "nobody leaves"],
)
def test_invalid_or_unsatisfiable_hold_claims_nothing(wrong):
    cluster, urgent = full()
    cluster.show(urgent | {"status": cluster.status(wrong)})
    assert cluster.ledger.find_holding("uid-urgent") is None


@pytest.mark.parametrize("message", ["", "{", "[]", "x" * 20_000, '{"node":1}', '{"node":"n","until":"soon"}'])
def test_malformed_hold_message_is_ignored(message):
    cluster, urgent = full()
    condition = {"type": HOLD_CONDITION, "status": "True", "message": message}
    cluster.show(urgent | {"status": {"conditions": [condition]}})
    assert cluster.ledger.find_holding("uid-urgent") is None


async def test_hold_claims_cards_once_the_pod_fits():
    cluster, urgent = full()
    cluster.show(urgent | {"status": cluster.status(hold(evicted=()))})
    assert not cluster.claimed("urgent")
    cluster.leave("one")
    cluster.holds.review()
    assert cluster.claimed("urgent")
