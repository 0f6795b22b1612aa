"""What the log tells of each pod, so that somebody can find out where it went and why not."""

import json
import logging

import msgspec
import pytest

from accelkit.errors import ApiError
from accelkit.extender.pod_watch import PodWatch
from accelkit.extender.preemption.holds import Holds
from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args
from accelkit.logs import Facts
from accelkit.model.pod import Pod
from accelkit.placement.policies import Policy


@pytest.fixture
def told(caplog):
    """The events that were logged, with their values; how long something took is left out."""
    caplog.set_level(logging.INFO)

    def told():
        found = [record.msg for record in caplog.records if isinstance(record.msg, Facts)]
        values = [dict(facts.values) for facts in found]
        for each in values:
            assert each.pop("seconds", 0) < 10
        return [(facts.event, each) for facts, each in zip(found, values, strict=True)]

    return told


def args(world, *nodes, memory=4):
    world.create(memory=memory)
    return msgspec.json.decode(json.dumps({"Pod": world.api.pods["p"], "NodeNames": nodes}), type=Args)


async def test_filter_logs_fit_count_and_refusal_reasons_once_per_minute(world, told):
    verbs = Verbs(world.ledger, world.feed, Policy.BINPACK)
    for _ in range(3):
        await verbs.filter(args(world, "n", "m", "x", "y", memory=20))
    refused = {"InsufficientMemory": 2, "UnknownNode": 2}
    assert told() == [("filtered", {"pod": "d/p", "uid": "uid-p", "nodes": 4, "fit": 0, "refused": refused})]


async def test_filter_logs_changed_result(world, told):
    verbs = Verbs(world.ledger, world.feed, Policy.BINPACK)
    await verbs.filter(args(world, "n", "m"))
    await verbs.filter(args(world, "n", "x"))
    assert [(values["fit"], values["refused"]) for _, values in told()] == [(2, {}), (1, {"UnknownNode": 1})]


async def test_bind_and_release_log_the_cards(world, told):
    world.create()
    assert await world.bind() == ""
    watch = PodWatch(world.ledger, world.feed, Holds(world.ledger, world.feed, Policy.BINPACK))
    pod = msgspec.convert(world.api.pods["p"], Pod)
    watch.take_event("MODIFIED", pod)
    watch.take_event("DELETED", pod)
    watch.take_event("DELETED", pod)
    values = {"pod": "d/p", "uid": "uid-p", "node": "n"}
    bound, released = told()
    shares = {"c": [{"card": "a", "memory_bytes": 4}]}
    for each, event in ((bound, "bound"), (released, "released")):
        assert json.loads(msgspec.json.encode(each[1].pop("containers"))) == shares
        assert each == (event, values)


async def test_pod_missing_from_list_is_logged_as_released(world, told):
    world.create()
    assert await world.bind() == ""
    watch = PodWatch(world.ledger, world.feed, Holds(world.ledger, world.feed, Policy.BINPACK))
    watch.replace([msgspec.convert(world.api.pods["p"], Pod)])
    assert [event for event, _ in told()] == ["bound"]
    watch.replace([])
    assert [event for event, _ in told()] == ["bound", "released"]


async def test_failed_bind_logs_its_reason_once_per_minute(world, told):
    world.create()
    world.api.fail(ApiError("x" * 3000, status=403), "POST", times=2)
    for _ in range(2):
        assert await world.bind() != ""
    ((event, values),) = told()
    assert (event, values["uid"], len(values["error"])) == ("not bound", "uid-p", 500)
