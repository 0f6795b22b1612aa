import asyncio
import json

import pytest
from aiohttp import web
from support.http_servers import serve_http

from accelkit.errors import ApiError, PageTooLargeError
from accelkit.kube import listing
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection
from accelkit.kube.listing import list_all
from accelkit.model.pod import Pod

PATH = "/api/v1/pods"
MIB = 1 << 20


class Collection:
    """Serves a collection page by page; `sizes` are what was asked for."""

    def __init__(self):
        self.pods, self.sizes, self.bytes, self.slow_over = [], [], [], 10**9

    async def handle(self, request):
        size, first = int(request.query["limit"]), int(request.query.get("continue", "0"))
        self.sizes.append(size)
        assert request.headers["Accept-Encoding"] == "identity"
        if size > self.slow_over:
            await asyncio.sleep(1)
        found = self.pods[first : first + size]
        more = str(first + size) if first + size < len(self.pods) else ""
        metadata = json.dumps({"resourceVersion": "7", "continue": more}).encode()
        body = b'{"metadata":' + metadata + b',"items":[' + b",".join(found) + b"]}"
        self.bytes.append(len(body))
        return web.Response(body=body, content_type="application/json")


@pytest.fixture
def patience():
    """For how many seconds the client waits for a page; a machine may stand still for some."""
    return 30.0


@pytest.fixture
async def collection(patience):
    found = Collection()
    async with (
        serve_http(found.handle) as url,
        ApiClient(Connection(str(url), None), timeout_seconds=patience) as found.api,
    ):
        yield found


def pods(count, length, first=0):
    text = b"x" * length
    return [b'{"metadata":{"name":"p%d"},"spec":{"x":"%b"}}' % (first + i, text) for i in range(count)]


async def test_page_size_grows_to_maximum_for_ordinary_objects(collection):
    collection.pods = pods(3000, 5000)
    found, version = await list_all(collection.api, PATH, Pod)
    assert ([pod.metadata.name for pod in found], version) == ([f"p{i}" for i in range(3000)], "7")
    assert collection.sizes == [8, 16, 32, 64, 128, 256, 500, 500, 500, 500, 500]


async def test_page_size_remains_small_for_large_objects(collection):
    collection.pods = pods(20, 3 * MIB)
    found, _ = await list_all(collection.api, PATH, Pod)
    assert len(found) == 20
    assert max(collection.bytes[1:]) < 10 * MIB


async def test_oversized_page_is_requested_again_in_smaller_pages(collection):
    collection.pods = pods(1008, 100) + pods(40, MIB, 1008) + pods(600, 100, 1048)
    found, _ = await list_all(collection.api, PATH, Pod)
    assert [pod.metadata.name for pod in found] == [f"p{i}" for i in range(1648)]
    assert collection.sizes[:9] == [8, 16, 32, 64, 128, 256, 500, 500, 8]
    assert collection.sizes[-1] > 8


@pytest.mark.parametrize("patience", [0.3])
async def test_late_page_is_requested_again_in_smaller_pages(collection):
    collection.pods, collection.slow_over = pods(100, 100), 16
    found, _ = await list_all(collection.api, PATH, Pod)
    assert len(found) == 100
    assert collection.sizes[:5] == [8, 16, 32, 8, 16]


async def test_single_oversized_object_is_an_error(collection, monkeypatch):
    monkeypatch.setattr(listing, "_MOST_BYTES", 1000)
    collection.pods = pods(20, 2000)
    with pytest.raises(PageTooLargeError, match="more than 1000 bytes"):
        await list_all(collection.api, PATH, Pod)
    assert collection.sizes == [8, 1]


async def test_objects_are_trimmed_before_next_page_is_requested(collection):
    collection.pods, seen = pods(20, 100), []
    await list_all(collection.api, PATH, Pod, trim=lambda pod: seen.append((pod.metadata.name, len(collection.sizes))))
    assert seen == [(f"p{i}", 1 if i < 8 else 2) for i in range(20)]


@pytest.mark.parametrize("patience", [0.3])
async def test_unresponsive_server_raises_error(collection):
    collection.pods, collection.slow_over = pods(1, 1), 0
    with pytest.raises(ApiError, match="did not arrive before the timeout"):
        await list_all(collection.api, PATH, Pod)


async def test_deeply_nested_pod_is_listed(collection):
    # As a tenant may write it into metadata.managedFields of a pod.
    deep = b'{"metadata":{"name":"deep","managedFields":[{"fieldsV1":' + b'{"f:a":' * 20_000 + b"{}" + b"}" * 20_000
    collection.pods = [*pods(3, 10), deep + b'}]},"spec":{"nodeName":"n"}}', *pods(3, 10, 3)]
    found, _ = await list_all(collection.api, PATH, Pod)
    assert [pod.metadata.name for pod in found] == ["p0", "p1", "p2", "deep", "p3", "p4", "p5"]
    assert found[3].spec.node_name == "n"
