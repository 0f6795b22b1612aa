"""The time in which the machine stood still extends deadlines, but not those of what must hold at all times."""

import os

import pytest
from faults.checker import PATIENCE, Judge, Violation
from faults.standstill import SAMPLE_SECONDS, MachineClock, Sample, count_standstill, take_sample
from support.waiting import poll_until

BEFORE = Sample(at=100.0, busy=50.0, own={1: 10.0, 2: 5.0}, waited={(1, 1): 3.0, (1, 7): 4.0})


def after(*, busy=0.0, own=0.0, waited=0.0, late=0.0):
    return Sample(
        at=BEFORE.at + SAMPLE_SECONDS + late,
        busy=BEFORE.busy + busy,
        own={1: 10.0 + own, 2: 5.0, 3: 99.0},
        waited={(1, 1): 3.0, (1, 7): 4.0 + waited, (3, 3): 99.0},
    )


@pytest.mark.parametrize(
    ("sample", "seconds"),
    [
        (after(busy=1.0, waited=0.3), 0.3),
        (after(busy=0.6, waited=0.5), 0.3),
        (after(late=2.0), 1.875),
        (after(late=0.5), 0.5),
    ],
    ids=["others-had-the-processors", "others-had-a-part", "stopped-for-long", "stopped"],
)
def test_count_standstill_returns_time_lost_to_other_processes(sample, seconds):
    assert count_standstill(BEFORE, sample, 2) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "sample",
    [
        after(),
        after(busy=1.0, own=1.0, waited=0.5),
        after(busy=1.0, waited=0.0),
        after(busy=0.2, waited=0.5),
        after(late=0.05),
    ],
    ids=["idle", "busy-with-the-laboratory", "nothing-waited", "others-had-little", "hardly-late"],
)
def test_count_standstill_is_zero_without_lost_time(sample):
    assert count_standstill(BEFORE, sample, 2) == 0.0


def test_clock_advances_during_permanent_standstill():
    lost = count_standstill(BEFORE, after(busy=10.0, waited=10.0), 2)
    assert 0 < lost < SAMPLE_SECONDS


def test_sample_contains_running_processes_only():
    sample = take_sample([os.getpid(), 2**22 + 1])
    assert set(sample.own) == {os.getpid()}
    assert (os.getpid(), os.getpid()) in sample.waited
    assert sample.busy > 0


def test_clock_excludes_standstill_time():
    clock = MachineClock(list)
    began = clock.seconds
    clock.advance(BEFORE, after(late=1.0))
    assert clock.stood_still == pytest.approx(1.0)
    assert clock.seconds - began == pytest.approx(SAMPLE_SECONDS)


def test_clock_advances_in_background_thread():
    with MachineClock(lambda: [os.getpid()]) as clock:
        began = clock.seconds
        poll_until(lambda: clock.seconds != began)


def test_judge_extends_only_deadlines_of_eventual_properties():
    slow, exact = Violation("assignment_differs", pod="default/a"), Violation("pod_lost", pod="default/b")
    judge, last = Judge(), PATIENCE["assignment_differs"]
    assert judge.observe([slow, exact], 100, 0, exact_now=500) == []
    # The clock of the machine moved on by a second, the other one by a minute.
    assert judge.observe([slow, exact], 101, 0, exact_now=560) == [exact]
    assert judge.observe([slow, exact], 100 + last, 0, exact_now=600) == [slow]
