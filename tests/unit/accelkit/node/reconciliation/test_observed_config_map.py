"""Writes and repairs of the ConfigMap of observed allocations, on an API server in memory."""

import pytest

from accelkit.errors import ApiError
from accelkit.kube.paths import build_config_maps_path
from accelkit.model.observed_allocations import ALLOCATIONS_KEY, ALLOCATIONS_LABELS, Allocations, encode_allocations
from accelkit.node.reconciliation.observed_config_map import REWRITE_SECONDS, AllocationsWriter

PATH = f"{build_config_maps_path('accelkit')}/n"
EMPTY = Allocations("n", ())


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def writer(api, now):
    return AllocationsWriter(api, "accelkit", "n", clock=lambda: now[0])


def is_whole(api):
    found = api.objects[PATH]
    labels = found["metadata"]["labels"]
    return (
        found["data"].get(ALLOCATIONS_KEY) == encode_allocations(EMPTY) and labels.items() >= ALLOCATIONS_LABELS.items()
    )


async def test_unchanged_allocations_are_written_once_per_interval(api, now, writer):
    await writer.write(EMPTY)
    writes = len(api.writes)
    now[0] += REWRITE_SECONDS - 1
    await writer.write(EMPTY)
    assert len(api.writes) == writes
    now[0] += 1
    await writer.write(EMPTY)
    assert len(api.writes) == writes + 1
    assert REWRITE_SECONDS <= 120


async def test_changed_allocations_are_written_at_once(api, writer):
    await writer.write(EMPTY)
    await writer.write(Allocations("n", (), ()))
    assert api.objects[PATH]["data"] == {ALLOCATIONS_KEY: encode_allocations(Allocations("n", (), ()))}


@pytest.mark.parametrize(
    "damage",
    [
        {"data": {ALLOCATIONS_KEY: "garbled"}},
        {"data": {"other": "x"}},
        {"data": {ALLOCATIONS_KEY: None}},
        {"metadata": {"labels": {"app.kubernetes.io/component": "other"}}},
        {"metadata": {"labels": dict.fromkeys(ALLOCATIONS_LABELS)}},
        {"data": {ALLOCATIONS_KEY: None}, "binaryData": {ALLOCATIONS_KEY: "AAAA"}},
    ],
)
async def test_damaged_config_map_is_repaired_without_changed_allocations(api, now, writer, damage):
    await writer.write(EMPTY)
    await api.patch(PATH, damage)
    now[0] += REWRITE_SECONDS
    await writer.write(EMPTY)
    assert is_whole(api)
    assert not api.objects[PATH].get("binaryData")


async def test_a_deleted_config_map_is_created_again(api, now, writer):
    await writer.write(EMPTY)
    del api.objects[PATH]
    now[0] += REWRITE_SECONDS
    await writer.write(EMPTY)
    assert is_whole(api)


async def test_failed_write_is_repeated_at_next_call(api, writer):
    api.fail(ApiError("no answer"), path=PATH, times=1)
    await writer.write(EMPTY)
    assert PATH not in api.objects
    await writer.write(EMPTY)
    assert is_whole(api)


async def test_allocations_are_written_again_after_lost_response(api, writer, monkeypatch):
    await writer.write(EMPTY)
    patch = api.patch

    async def lose_answer(*arguments, **options):
        await patch(*arguments, **options)
        raise ApiError("no answer")

    monkeypatch.setattr(api, "patch", lose_answer)
    await writer.write(Allocations("n", (), ()))
    monkeypatch.undo()
    assert not is_whole(api)
    await writer.write(EMPTY)
    assert is_whole(api)


async def test_nothing_is_written_without_namespace(api):
    await AllocationsWriter(api, None, "n").write(EMPTY)
    assert api.requests == []
