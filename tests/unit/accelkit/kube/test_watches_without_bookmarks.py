"""Watches of Events: API servers tell them nothing while nothing changes, so silence says nothing of the connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from accelkit.back_off import BackOff
from accelkit.kube import reflector as module
from accelkit.kube.reflector import Reflector
from accelkit.model.pod import Pod


class Api:
    """A watch that ends in silence when its time is over, as a server ends it."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.silences: list[float] = []

    async def get_page(self, _path: str, *, query: dict[str, str], max_bytes: int) -> bytes:
        del max_bytes
        self.asked.append(query)
        return msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": []})

    @asynccontextmanager
    async def stream(self, _path: str, *, query: dict[str, str], silence_seconds: float) -> AsyncIterator[object]:
        self.asked.append(query)
        self.silences.append(silence_seconds)

        async def lines() -> AsyncIterator[bytes]:
            for line in ():
                yield line

        yield lines()


@pytest.mark.parametrize("bookmarks", [True, False])
async def test_watch_without_bookmarks_ends_before_silence_limit_and_relists(bookmarks, monkeypatch, caplog):
    monkeypatch.setattr(module, "_BACK_OFF", BackOff(0.0, 0.0))
    api, lists = Api(), asyncio.Queue()
    reflector = Reflector(
        api, "/api/v1/events", Pod, bookmarks=bookmarks, on_replace=lists.put_nowait, on_event=lambda *_: None
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await reflector._list_and_watch()
    watches = [each for each in api.asked if "watch" in each]
    assert len(watches) == 2
    for each, silence in zip(watches, api.silences, strict=True):
        assert (float(each["timeoutSeconds"]) < silence) is not bookmarks
    # Its version is of the last change, from which a server may go on no longer.
    assert lists.qsize() == (1 if bookmarks else 2)
    assert not caplog.records
