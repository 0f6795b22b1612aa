import msgspec
import pytest
from support.pods import UNSCHEDULABLE, build_container, build_pod
from support.requests import build_inventory

from accelkit.errors import RequestError
from accelkit.extender.waking.announcements import INTERVAL_SECONDS, REMEMBERED_SECONDS, Announcements, Waiting
from accelkit.ledger.claims import claim, reserve
from accelkit.ledger.feed import Pending
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import Pod, PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.pod_reading import PodReader

NATIVE = load_dialect("native")


def announced(announcements, now):
    due = announcements.list_due(now)
    for name in due:
        announcements.note_begun(name, now)
        announcements.note_written(name)
    return due


@pytest.fixture
def announcements():
    return Announcements()


def test_changes_within_the_interval_are_announced_together(announcements):
    written = []
    turns = [turn / 10 for turn in range(100)]
    for now in turns:
        if now < 7.0:
            announcements.note_freed(["n"], now)
        written += [now for _ in announced(announcements, now)]
    assert written == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_change_during_write_is_announced_again(announcements):
    announcements.note_freed(["n"], 0.0)
    announcements.note_begun("n", 0.0)
    announcements.note_freed(["n"], 0.1)
    announcements.note_written("n")
    assert announcements.list_due(INTERVAL_SECONDS - 0.1) == []
    assert announcements.list_due(INTERVAL_SECONDS) == ["n"]


def test_nodes_are_due_in_order_of_release(announcements):
    announcements.note_freed(["b"], 0.0)
    announcements.note_freed(["a"], 1.0)
    announcements.note_freed(["c"], 0.5)
    assert announcements.list_due(1.0) == ["b", "c", "a"]


def test_unannounced_change_expires(announcements):
    announcements.note_freed(["n"], 0.0)
    assert announcements.list_due(REMEMBERED_SECONDS) == ["n"]
    assert announcements.list_due(REMEMBERED_SECONDS + 0.1) == []
    assert announcements.list_due(0.0) == []


def test_failed_writes_are_retried_with_increasing_delay():
    announcements, now, pauses = Announcements(), 0.0, []
    announcements.note_freed(["n"], now)
    for _ in range(8):
        assert announcements.list_due(now) == ["n"]
        announcements.note_begun("n", now)
        announcements.note_failed("n", now)
        begun = now
        while not announcements.list_due(now):
            now += 1.0
        pauses.append(now - begun)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    announcements.note_begun("n", now)
    announcements.note_written("n")
    announcements.note_freed(["n"], now)
    assert announcements.list_due(now + INTERVAL_SECONDS) == ["n"]
    assert first_pause(announcements, now + INTERVAL_SECONDS) == 2.0


def first_pause(announcements, now):
    """Fail once; return after how long the node is due again."""
    announcements.note_begun("n", now)
    announcements.note_failed("n", now)
    return next(pause for pause in (1.0, 2.0, 4.0, 8.0) if announcements.list_due(now + pause))


def test_retry_delay_is_reset_after_a_long_pause(announcements):
    announcements.note_freed(["n"], 0.0)
    for _ in range(3):
        announcements.note_begun("n", 0.0)
        announcements.note_failed("n", 0.0)
    assert announcements.list_due(1000.0) == []
    announcements.note_freed(["n"], 1000.0)
    assert first_pause(announcements, 1000.0) == 2.0


REFUSED = [UNSCHEDULABLE]
BODY = build_pod("p", build_container({"accelkit.io/memory": 1}))


class Pods:
    def __init__(self):
        self.ledger = Ledger(unit_bytes=1)
        self.ledger.put_node("n", build_inventory("a"))
        self.waiting = Waiting(self.ledger, Policy.BINPACK)
        self.pending = {}

    def create(self, name, memory, conditions=REFUSED, containers=("c",)):
        asked = tuple(ContainerRequest(container, Kind.APP, 1, memory) for container in containers)
        request = PodRequest(asked) if memory else None
        pod = PodReader([NATIVE]).read(msgspec.convert({**BODY, "status": {"conditions": conditions}}, Pod))
        self.pending[name] = Pending(pod, request, None if memory else RequestError("nonsense"))

    def looks(self):
        self.waiting.update(self.pending)
        return self.waiting.fits("n")


@pytest.fixture
def pods():
    return Pods()


def test_pod_counts_as_waiting_after_two_updates(pods):
    pods.create("p", 4)
    assert not pods.looks()
    assert pods.looks()
    del pods.pending["p"]
    assert not pods.looks()


def test_pod_that_does_not_fit_the_node_is_not_woken(pods):
    pods.create("large", 17)
    pods.create("refused", 0)
    assert [pods.looks(), pods.looks()] == [False, False]
    pods.create("p", 16)
    assert [pods.looks(), pods.looks()] == [False, True]
    pods.ledger.reserve(PodRef("d", "q", "q"), "n", pods.pending["p"].request, Policy.BINPACK)
    assert not pods.waiting.fits("n")
    assert not pods.waiting.fits("unknown")


@pytest.mark.parametrize(
    ("conditions", "waits"),
    [
        (REFUSED, True),
        ([{"type": "Ready", "status": "False"}, *REFUSED], True),
        ([{**REFUSED[0], "reason": "SchedulerError"}], True),
        ([{**REFUSED[0], "reason": "SchedulingGated"}], False),
        ([{**REFUSED[0], "status": "True"}], False),
        ([{**REFUSED[0], "type": "Ready"}], False),
        ([], False),
        (None, False),
    ],
)
def test_only_pods_refused_by_kube_scheduler_are_waiting(pods, conditions, waits):
    pods.create("p", 4, conditions)
    pods.looks()
    assert pods.looks() is waits


def test_request_that_requires_search_is_assumed_to_fit(pods):
    pods.create("puzzle", 100, containers=("a", "b"))
    pods.looks()
    assert pods.looks()


def test_pods_beyond_the_shape_limit_are_assumed_to_fit(pods):
    for number in range(32):
        pods.create(f"p{number}", 100 + number)
    pods.looks()
    assert not pods.looks()
    pods.create("one-more", 1000)
    pods.looks()
    assert pods.looks()


def test_claimed_node_is_announced_until_pod_is_reserved(pods):
    pods.create("p", 16)
    pods.looks()
    pods.looks()
    assert pods.waiting.fits("n")
    claim(pods.ledger, PodRef("d", "p", "p"), "n", pods.pending["p"].request, Policy.BINPACK, gone=())
    pods.looks()
    assert pods.waiting.fits("n")
    assert not pods.waiting.fits("m")
    # With the Binding, nobody waits for it.
    reserve(pods.ledger, PodRef("d", "p", "p"), "n", pods.pending["p"].request, Policy.BINPACK)
    pods.looks()
    assert not pods.waiting.fits("n")
