"""Waiting for a pod that ends."""

import time

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kube import pods
from accelkit.kube.pods import PodProgress, wait_until_ended

PATH = "/api/v1/namespaces/n/pods/p"


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(pods, "POLL_SECONDS", 0)


async def wait(status, *, seconds=0.0):
    api = FakeApi()
    api.objects[PATH] = {"metadata": {"name": "p"}, "status": status}
    return await wait_until_ended(api, PATH, time.monotonic() + seconds)


def waiting(**state):
    return {"containerStatuses": [{"state": {"running": {}}}, {"state": {"waiting": state}}]}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_ended_pod_is_reported_immediately(phase):
    assert await wait({"phase": phase}, seconds=60) == PodProgress(ended=True, message=phase)


@pytest.mark.parametrize("reason", ["ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"])
async def test_unavailable_image_ends_wait_immediately(reason):
    found = await wait(waiting(reason=reason, message="no such image"), seconds=60)
    assert found == PodProgress(has_no_image=True, message="no such image")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({}, "Pending"),
        ({"phase": "Running"}, "Running"),
        (waiting(reason="ContainerCreating"), "ContainerCreating"),
        ({"conditions": [{}, {"message": "no node"}], **waiting(reason="ContainerCreating")}, "no node"),
        ({"conditions": [{"message": "no node"}], **waiting(reason="R", message="no folder")}, "no folder"),
        ({"message": "too late", **waiting(reason="R", message="no folder")}, "too late"),
    ],
)
async def test_most_specific_message_is_reported_at_deadline(status, message):
    assert await wait(status) == PodProgress(message=message)


async def test_failed_request_to_api_server_is_retried():
    api = FakeApi()
    api.objects[PATH] = {"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}}
    api.fail(ApiError("away"), "GET", times=2)
    assert (await wait_until_ended(api, PATH, time.monotonic() + 60)).ended


async def test_failing_api_server_is_reported_at_deadline():
    api = FakeApi()
    api.fail(ApiError("away"), "GET", times=2)
    assert await wait_until_ended(api, PATH, time.monotonic() - 1) == PodProgress(message="away")


async def test_missing_pod_raises_error():
    with pytest.raises(ApiError) as caught:
        await wait_until_ended(FakeApi(), PATH, time.monotonic() + 60)
    assert caught.value.not_found
