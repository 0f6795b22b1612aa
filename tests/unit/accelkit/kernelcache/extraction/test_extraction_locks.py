"""Locks: one works on a folder at a time, and locks go with their folders."""

from __future__ import annotations

import asyncio
import fcntl
from pathlib import Path

import pytest
from registries.hostile import HostileRegistry
from served_images import HELLO, extract, put_layers, unsigned

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.folder import Place, lock_place

DEADLINE = 60.0


async def test_lock_timeout_names_the_lock_file(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [HELLO])
    place = Place.of(base, image.digest, None)
    async with lock_place(place, 1):
        with pytest.raises(
            CacheError, match=r"for more than 0 s; wait, or find the process that holds the lock on .*\.lock"
        ):
            await extract(hostile_registry, unsigned(image, base, lock_seconds=0))
    assert (await extract(hostile_registry, unsigned(image, base, lock_seconds=0))).fresh


async def test_lock_file_deletion_preserves_mutual_exclusion(base: Path) -> None:
    place = Place.of(base, "sha256:" + "0" * 64, None)
    inside: list[int] = []

    async def work(number: int) -> None:
        async with lock_place(place, DEADLINE):
            assert inside == [], "two at once"
            inside.append(number)
            await asyncio.sleep(0)
            inside.clear()

    await asyncio.wait_for(asyncio.gather(*(work(number) for number in range(8))), DEADLINE)
    assert not place.lock.exists(), "without a folder there is nothing to lock"


async def enter(place: Place) -> None:
    async with lock_place(place, DEADLINE):
        pass


async def test_process_waiting_for_deleted_lock_acquires_the_new_lock(base: Path) -> None:
    place = Place.of(base, "sha256:" + "0" * 64, None)
    base.mkdir()
    with place.lock.open("w") as former:
        fcntl.flock(former, fcntl.LOCK_EX)
        waiting = asyncio.ensure_future(enter(place))
        await asyncio.sleep(0)
        place.lock.unlink()
        async with lock_place(place, 1):
            # Let go of, but no lock any more.
            fcntl.flock(former, fcntl.LOCK_UN)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(waiting), 0.3)
        await asyncio.wait_for(waiting, DEADLINE)


async def test_failed_extraction_leaves_no_lock(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [b"no archive"])
    with pytest.raises(CacheError):
        await extract(hostile_registry, unsigned(image, base))
    assert list(base.iterdir()) == []


async def test_extractions_of_different_images_do_not_block_each_other(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    async with lock_place(Place.of(base, "sha256:" + "0" * 64, None), 1):
        assert (await extract(hostile_registry, unsigned(image, base, lock_seconds=0))).fresh
