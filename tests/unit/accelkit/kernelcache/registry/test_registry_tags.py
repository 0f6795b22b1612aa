"""Tags are listed over pages that stay with the registry, end, and hold tags."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from registries import misbehaviour
from registries.hostile import HostileRegistry
from registries.visiting import REPOSITORY, at, visiting

from accelkit.errors import RegistryError

TAGS = f"/v2/{REPOSITORY}/tags/list"


@pytest.fixture
def registry():
    with HostileRegistry() as registry:
        yield registry


async def test_tags_are_listed_over_pages(registry):
    def pages(request: web.Request) -> web.Response:
        more = "last" not in request.query
        headers = {"Link": f'<{request.path}?n=1000&last=b>; rel="next"'} if more else {}
        return web.json_response({"tags": ["a", "b"] if more else ["c"]}, headers=headers)

    registry.on("GET", TAGS, pages)
    async with visiting(registry) as client:
        assert await client.tags(at(registry)) == ["a", "b", "c"]
    assert [each.query for each in registry.requests] == [{"n": "1000"}, {"n": "1000", "last": "b"}]


async def test_a_repository_may_have_no_tags(registry):
    registry.on("GET", TAGS, misbehaviour.answering(200, b'{"name":"team/app","tags":null}'))
    async with visiting(registry) as client:
        assert await client.tags(at(registry)) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"tags":"v1"}', b'{"tags":["../../x"]}', b'{"tags":["\\u001b[2J"]}', b'{"x":' + b"[" * 99_999],
)
async def test_what_is_no_list_of_tags_is_refused(registry, body):
    registry.on("GET", TAGS, misbehaviour.answering(200, body))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="tags"):
            await client.tags(at(registry))


async def test_a_list_that_never_ends_is_left(registry):
    headers = {"Link": f'<{TAGS}>; rel="next"'}
    registry.on("GET", TAGS, misbehaviour.answering(200, b'{"tags":[]}', headers=headers))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="more than 50 pages"):
            await client.tags(at(registry))


async def test_all_pages_together_have_a_limit(registry):
    body = json.dumps({"tags": ["a" * 100] * 40_000}).encode()
    headers = {"Link": f'<{TAGS}>; rel="next"'}
    registry.on("GET", TAGS, misbehaviour.answering(200, body, headers=headers))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="longer than"):
            await client.tags(at(registry))
    assert len(registry.requests) == 5


@pytest.mark.parametrize("link", ["<https://[>; rel=next", "<https://r.io:99999/>; rel=next", "<file:///x>; rel=next"])
async def test_a_next_page_that_cannot_be_read_is_no_end_of_a_list(registry, link):
    registry.on("GET", TAGS, misbehaviour.answering(200, b'{"tags":["a"]}', headers={"Link": link}))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match=r"no place to go|cannot be read"):
            await client.tags(at(registry))


async def test_a_link_to_something_else_ends_a_list(registry):
    headers = {"Link": '<https://docs.example.com>; rel="help", rubbish'}
    registry.on("GET", TAGS, misbehaviour.answering(200, b'{"tags":["a"]}', headers=headers))
    async with visiting(registry) as client:
        assert await client.tags(at(registry)) == ["a"]
