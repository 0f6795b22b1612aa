import pytest

from accelkit.extender.groups.group_events import GroupEvents
from accelkit.extender.groups.membership import Convention, GroupKey
from accelkit.model.pod import PodRef

POD = PodRef("d", "p", "u")


class Events:
    def __init__(self):
        self.written = []

    async def record(self, involved, reason, message, *, warning):
        assert (involved.kind, involved.namespace, warning) == ("Pod", "d", True)
        self.written.append((involved.name, reason, message))


@pytest.fixture
def events():
    return Events()


def key(name="g"):
    return GroupKey("d", name, Convention.LABELS)


async def test_lasting_reason_is_reported_once_and_changed_reason_again(events):
    group_events = GroupEvents(events)
    for now, reason, written in [(0, "a", 0), (1, "a", 0), (2, "a", 1), (9, "a", 1), (10, "b", 1), (12, "b", 2)]:
        await group_events.update({key(): (reason, POD)}, now)
        assert len(events.written) == written, now
        assert group_events.find_reason(key()) == reason
    await group_events.update({}, 13)
    assert group_events.find_reason(key()) == ""


async def test_events_are_written_in_bounded_batches(events):
    group_events = GroupEvents(events)
    reasons = {key(str(number)): (f"reason {number}", POD) for number in range(40)}
    for now, written in [(0, 0), (2, 16), (3, 32), (4, 40), (5, 40)]:
        await group_events.update(reasons, now)
        assert len(events.written) == written


async def test_release_events_are_limited_in_number(events):
    group_events = GroupEvents(events)
    group_events.note_released([PodRef("d", f"p{number}", "u") for number in range(20)], "too late")
    await group_events.update({}, 0)
    assert events.written == [(f"p{number}", "PodGroupReleased", "too late") for number in range(8)]
