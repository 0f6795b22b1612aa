import time

import msgspec
import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kube import objects
from accelkit.kube.objects import (
    create_or_replace,
    delete_and_wait,
    delete_if_present,
    get_if_present,
    patch_or_create,
)
from accelkit.kube.paths import build_config_maps_path, build_object_path

MAPS = build_config_maps_path("d")
PATH = build_object_path(MAPS, "m")
REFUSED = ApiError("configmaps is forbidden", status=403, reason="Forbidden")


def config_map(**data):
    return {"metadata": {"name": "m", "namespace": "d"}, "data": data}


@pytest.fixture
def api(monkeypatch):
    monkeypatch.setattr(objects, "POLL_SECONDS", 0)
    return FakeApi()


async def test_get_if_present_returns_object_or_none(api):
    assert await get_if_present(api, PATH) is None
    api.store(MAPS, config_map(a="1"))
    answer = await get_if_present(api, PATH)
    assert msgspec.json.decode(answer)["data"] == {"a": "1"}


async def test_existing_object_is_replaced(api):
    await create_or_replace(api, MAPS, "m", config_map(a="1"))
    await create_or_replace(api, MAPS, "m", config_map(b="2"))
    assert api.objects[PATH]["data"] == {"b": "2"}
    assert [request.method for request in api.done] == ["POST", "PUT"]


async def test_existing_object_is_patched_and_missing_object_is_created(api):
    await patch_or_create(api, MAPS, "m", {"data": {"a": "1"}}, config_map(a="1"))
    await patch_or_create(api, MAPS, "m", {"data": {"b": "2"}}, config_map(b="2"))
    assert api.objects[PATH]["data"] == {"a": "1", "b": "2"}


async def test_deleting_missing_object_succeeds(api):
    await delete_if_present(api, PATH)
    api.store(MAPS, config_map())
    await delete_if_present(api, PATH, {"propagationPolicy": "Foreground"})
    assert api.objects == {}
    assert api.requests[-1].body == {"propagationPolicy": "Foreground"}


@pytest.mark.parametrize(
    "act",
    [
        lambda api: get_if_present(api, PATH),
        lambda api: create_or_replace(api, MAPS, "m", config_map()),
        lambda api: patch_or_create(api, MAPS, "m", {}, config_map()),
        lambda api: delete_if_present(api, PATH),
        lambda api: delete_and_wait(api, PATH, time.monotonic() + 60),
    ],
)
async def test_unexpected_api_error_is_raised(api, act):
    api.store(MAPS, config_map())
    api.fail(REFUSED)
    with pytest.raises(ApiError, match="is forbidden"):
        await act(api)


async def test_version_conflict_is_not_treated_as_existing_object(api):
    api.fail(ApiError("the object has been modified", status=409, reason="Conflict"), "POST")
    with pytest.raises(ApiError, match="has been modified"):
        await create_or_replace(api, MAPS, "m", config_map())


async def test_delete_and_wait_returns_after_removal(api):
    api.store(MAPS, config_map())
    api.lingering["configmaps"] = 3
    await delete_and_wait(api, PATH, time.monotonic() + 60)
    assert api.objects == {}


async def test_delete_and_wait_retries_failed_requests(api):
    api.store(MAPS, config_map())
    api.fail(ApiError("no answer"), times=2)
    await delete_and_wait(api, PATH, time.monotonic() + 60)
    assert api.objects == {}


async def test_delete_and_wait_times_out_if_object_remains(api):
    api.store(MAPS, config_map())
    api.lingering["configmaps"] = -1
    with pytest.raises(TimeoutError):
        await delete_and_wait(api, PATH, time.monotonic() - 1)


async def test_delete_and_wait_raises_if_api_server_fails_until_deadline(api):
    api.fail(ApiError("no answer"), times=None)
    with pytest.raises(ApiError, match="no answer"):
        await delete_and_wait(api, PATH, time.monotonic() - 1)
