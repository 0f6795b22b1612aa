"""POST /simulate behind the extender's routes."""

from __future__ import annotations

import pytest
from test_routes import DEEP, MALFORMED, call, make_routes


@pytest.fixture
async def service(world):
    """A world behind its routes."""
    world.routes = make_routes(world)
    return world


async def test_a_simulation_says_what_the_verbs_would_do_and_does_nothing(service):
    service.create()
    for prefix in ("", "/gcushare-scheduler"):
        status, answer = await call(service, "POST", f"{prefix}/simulate", {"pod": service.api.pods["p"]})
        assert (status, [(node["name"], node["fits"]) for node in answer["nodes"]]) == (200, [("m", True), ("n", True)])
        assert answer["nodes"][0]["assignment"] == {"c": [{"card": "a", "memory_bytes": 4}]}
    assert (service.used(), service.api.posts) == ({}, [])


async def test_a_simulation_is_answered_by_whoever_can_show_something(service):
    service.create()
    question = {"pod": service.api.pods["p"], "nodes": ["n"]}
    service.leader, service.silence = "other", 60.0
    assert (await call(service, "POST", "/simulate", question))[0] == 200
    service.synced = False
    assert await call(service, "POST", "/simulate", question) == (503, {"error": "the cluster has not been read yet"})


@pytest.mark.parametrize("body", [*MALFORMED, DEEP, b'{"pod": {"metadata": {"uid": "\xff"}}}', b'{"pod": {}}'])
async def test_a_bad_question_is_answered_with_400(service, body):
    status, answer = await call(service, "POST", "/simulate", body)
    assert status == 400
    assert answer["error"].startswith("accelkit cannot use what is asked: ")


async def test_a_question_with_a_word_that_is_not_known_is_not_half_understood(service):
    service.create()
    question = {"pod": service.api.pods["p"], "witout": ["d/x"]}
    status, answer = await call(service, "POST", "/simulate", question)
    assert (status, "witout" in answer["error"]) == (400, True)


async def test_a_question_that_is_too_long_is_not_read(service):
    status, answer = await call(service, "POST", "/simulate", b" " * (256 * 1024 + 1))
    assert (status, answer) == (413, {"error": "a question of more than 262144 bytes is not answered"})
