import re

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kube.events import Events, ObjectReference

POD = ObjectReference("Pod", "p", "d", "uid-p")


async def record(involved, message="A card is gone.", *, api=None, **more):
    api = api or FakeApi()
    await Events(api, "accelkit-node-agent", "host-1").record(involved, "CardGone", message, **more)
    return api.requests[0]


async def test_event_contains_reporter_object_reason_and_message():
    request = await record(POD, warning=True)
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/d/events")
    event = dict(request.body)
    name, first = event["metadata"].pop("name"), event.pop("firstTimestamp")
    assert re.fullmatch(r"p\.[0-9a-f]{16}", name)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first)
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "d"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "d", "uid": "uid-p"},
        "reason": "CardGone",
        "message": "A card is gone.",
        "type": "Warning",
        "source": {"component": "accelkit-node-agent", "host": "host-1"},
        "reportingComponent": "accelkit-node-agent",
        "reportingInstance": "host-1",
        "lastTimestamp": first,
        "count": 1,
    }


async def test_node_event_is_created_in_default_namespace():
    request = await record(ObjectReference("Node", "n"))
    assert request.path == "/api/v1/namespaces/default/events"
    assert (request.body["metadata"]["namespace"], request.body["type"]) == ("default", "Normal")
    assert request.body["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n"}


async def test_control_characters_in_message_are_replaced():
    request = await record(POD, "card \x1b[2J\r\u202egone")
    assert request.body["message"] == "card \ufffd[2J\ufffd\ufffdgone"


@pytest.mark.parametrize("name", [f"{'p' * 235}-{'p' * 17}", f"{'p' * 234}-.-p", f"{'p' * 235}.p"])
async def test_name_of_truncated_event_is_valid(name):
    request = await record(ObjectReference("Pod", name, "d"), "m")
    assert re.fullmatch(
        r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", request.body["metadata"]["name"]
    )


async def test_long_event_names_and_messages_are_truncated():
    request = await record(ObjectReference("Pod", "p" * 253, "d"), "m" * 2000)
    assert len(request.body["metadata"]["name"]) == 253
    assert request.body["message"] == "m" * 1000


@pytest.mark.parametrize("error", [ApiError("no answer"), ApiError("forbidden", status=403)])
async def test_an_event_that_cannot_be_written_is_discarded(error):
    api = FakeApi()
    api.fail(error)
    await record(POD, api=api)
    assert (len(api.requests), api.objects) == (1, {})
