"""Whatever ends an extraction too early, nothing of it is visible, and the next one succeeds."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hand_made_archives import PLAIN, archive, file
from registries.hostile import Handler, HostileRegistry
from registries.memory import digest_of
from served_images import HELLO, client_of, extract, files_of, image_of, put, put_layers, unsigned, visible

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction import extract_image, read_completed
from accelkit.kernelcache.extraction.folder import Place
from accelkit.kernelcache.oci.reference import Reference

DEADLINE = 60.0
BIG = archive(*(file(f"io.triton.cache/{number}", bytes(1000)) for number in range(200)))
BIG_BLOB = f".*/blobs/{digest_of(BIG)}"

# What a killed process was doing: extracts argv[1] into argv[2].
EXTRACTING = """
import asyncio, pathlib, sys
from accelkit.kernelcache.extraction import ExtractionRequest, extract_image
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.registry.settings import RegistrySettings

async def main():
    image = parse_reference(sys.argv[1])
    request = ExtractionRequest(image=image, base=pathlib.Path(sys.argv[2]), policies=None)
    async with RegistryClient(RegistrySettings(plain_http=frozenset({image.registry}))) as client:
        done = await extract_image(client, request)
        print("fresh" if done.fresh else "found")

asyncio.run(main())
"""


def half_and_then(body: bytes, begun: threading.Event, go_on: threading.Event) -> Handler:
    """Sends one half, says so, and sends the rest when it may."""

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        answer.content_length = len(body)
        await answer.prepare(request)
        await answer.write(body[: len(body) // 2])
        begun.set()
        await asyncio.to_thread(go_on.wait, DEADLINE)
        await answer.write(body[len(body) // 2 :])
        return answer

    return handler


@pytest.fixture
def big(hostile_registry: HostileRegistry) -> Reference:
    return put(hostile_registry, image_of([(BIG, PLAIN)]))


@pytest.fixture
def stalling(hostile_registry: HostileRegistry) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The big layer comes by half; the events say that it did, and that the rest may come."""
    begun, go_on = threading.Event(), threading.Event()
    hostile_registry.on("GET", BIG_BLOB, half_and_then(BIG, begun, go_on))
    yield begun, go_on
    go_on.set()


# Several at once


async def test_concurrent_extractions_download_the_image_once(
    hostile_registry: HostileRegistry, base: Path, big: Reference, stalling: tuple[threading.Event, threading.Event]
) -> None:
    begun, go_on = stalling
    async with client_of(hostile_registry) as one, client_of(hostile_registry) as other:
        first = asyncio.ensure_future(extract_image(one, unsigned(big, base)))
        assert await asyncio.to_thread(begun.wait, DEADLINE)
        second = asyncio.ensure_future(extract_image(other, unsigned(big, base)))
        assert visible(base) == [f".{big.digest.replace(':', '-')}.partial"]
        go_on.set()
        done = await asyncio.wait_for(asyncio.gather(first, second), DEADLINE)
    assert [each.fresh for each in done] == [True, False]
    assert len(hostile_registry.received("GET", BIG_BLOB)) == 1


async def test_extraction_waits_for_another_process(
    hostile_registry: HostileRegistry, base: Path, big: Reference, stalling: tuple[threading.Event, threading.Event]
) -> None:
    begun, go_on = stalling
    with extracting(big, base) as process:
        assert await asyncio.to_thread(begun.wait, DEADLINE)
        with pytest.raises(CacheError, match="another process has locked it"):
            await extract(hostile_registry, unsigned(big, base, lock_seconds=0.1))
        ours = asyncio.ensure_future(extract(hostile_registry, unsigned(big, base)))
        go_on.set()
        assert await asyncio.to_thread(process.communicate, timeout=DEADLINE) == (b"fresh\n", None)
        assert not (await asyncio.wait_for(ours, DEADLINE)).fresh
    assert len(hostile_registry.received("GET", BIG_BLOB)) == 1


def extracting(image: Reference, base: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", EXTRACTING, str(image), str(base)], stdout=subprocess.PIPE)


async def test_extracted_directory_is_published_atomically(
    hostile_registry: HostileRegistry, base: Path, big: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Place.of(base, big.digest, None).folder
    seen: list[tuple[int, bool] | None] = []

    def look_after(change: Callable[..., Any]) -> Callable[..., Any]:
        def changing(*arguments: Any) -> Any:
            result = change(*arguments)
            there = folder.exists()
            seen.append((len(files_of(folder / "cache")), (folder / "complete.json").is_file()) if there else None)
            return result

        return changing

    monkeypatch.setattr("accelkit.kernelcache.extraction.unpack.os.write", look_after(os.write))
    monkeypatch.setattr(Path, "rename", look_after(Path.rename))
    await extract(hostile_registry, unsigned(big, base))
    monkeypatch.undo()
    assert len(seen) > 200
    assert set(seen) == {None, (200, True)}


async def test_failed_record_write_keeps_the_former_directory(
    hostile_registry: HostileRegistry, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    place = Place.of(base, image.digest, None)
    place.cache.mkdir(parents=True)
    (place.cache / "former").write_bytes(b"")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("accelkit.kernelcache.extraction.folder.write_record", full)
    with pytest.raises(CacheError, match="is full; no part of the cache was kept"):
        await extract(hostile_registry, unsigned(image, base))
    assert visible(base) == [place.folder.name]
    assert files_of(place.cache) == {"former": b""}


# Ended too early


async def test_killed_extraction_publishes_nothing_and_the_next_extraction_succeeds(
    hostile_registry: HostileRegistry, base: Path, big: Reference, stalling: tuple[threading.Event, threading.Event]
) -> None:
    begun, go_on = stalling
    with extracting(big, base) as process:
        assert await asyncio.to_thread(begun.wait, DEADLINE)
        process.kill()
    assert process.returncode < 0
    (left,) = visible(base)
    assert left.endswith(".partial")
    assert read_completed(Place.of(base, big.digest, None)) is None
    go_on.set()
    done = await extract(hostile_registry, unsigned(big, base, lock_seconds=0))
    assert done.fresh
    assert len(files_of(done.place.cache)) == 200
    assert visible(base) == [done.place.folder.name]


async def test_extraction_of_another_image_removes_files_of_killed_extraction(
    hostile_registry: HostileRegistry, base: Path, big: Reference, stalling: tuple[threading.Event, threading.Event]
) -> None:
    begun, _ = stalling
    with extracting(big, base) as process:
        assert await asyncio.to_thread(begun.wait, DEADLINE)
        process.kill()
    other = put(hostile_registry, image_of([(HELLO, PLAIN)]), "v2")
    done = await extract(hostile_registry, unsigned(other, base))
    assert visible(base) == [done.place.folder.name]


async def test_files_of_a_running_extraction_are_not_removed(
    hostile_registry: HostileRegistry, base: Path, big: Reference, stalling: tuple[threading.Event, threading.Event]
) -> None:
    begun, go_on = stalling
    other = put(hostile_registry, image_of([(HELLO, PLAIN)]), "v2")
    async with client_of(hostile_registry) as client:
        task = asyncio.ensure_future(extract_image(client, unsigned(big, base)))
        assert await asyncio.to_thread(begun.wait, DEADLINE)
        await extract_image(client, unsigned(other, base))
        go_on.set()
        assert (await asyncio.wait_for(task, DEADLINE)).fresh


def working_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("ThreadPoolExecutor")]


async def test_cancelled_extraction_leaves_no_files_and_no_lock(
    hostile_registry: HostileRegistry, base: Path, big: Reference, stalling: tuple[threading.Event, threading.Event]
) -> None:
    begun, go_on = stalling
    async with client_of(hostile_registry) as client:
        task = asyncio.ensure_future(extract_image(client, unsigned(big, base)))
        assert await asyncio.to_thread(begun.wait, DEADLINE)
        assert working_threads()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, DEADLINE)
        assert working_threads() == []
        assert visible(base) == []
        go_on.set()
        assert (await extract_image(client, unsigned(big, base, lock_seconds=0))).fresh


async def test_full_disk_is_reported_and_leaves_no_files(
    hostile_registry: HostileRegistry, base: Path, big: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    def write(descriptor: int, data: memoryview) -> int:
        nonlocal written
        written += len(data)
        if written > 100_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    real = os.write
    monkeypatch.setattr("accelkit.kernelcache.extraction.unpack.os.write", write)
    with pytest.raises(CacheError, match="is full; no part of the cache was kept"):
        await extract(hostile_registry, unsigned(big, base))
    monkeypatch.undo()
    assert visible(base) == []
    assert (await extract(hostile_registry, unsigned(big, base))).fresh


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 128 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounting.returncode:
        pytest.skip(f"no disk can be mounted here: {mounting.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


async def test_extraction_to_full_tmpfs_leaves_no_files(hostile_registry: HostileRegistry, small_disk: Path) -> None:
    layer = archive(*(file(f"io.triton.cache/{number}", bytes(200_000)) for number in range(2)))
    image = put_layers(hostile_registry, [layer])
    with pytest.raises(CacheError, match="is full; no part of the cache was kept"):
        await extract(hostile_registry, unsigned(image, small_disk))
    assert visible(small_disk) == []


async def test_insufficient_disk_space_is_reported_before_layer_download(
    hostile_registry: HostileRegistry, small_disk: Path, big: Reference
) -> None:
    with pytest.raises(CacheError, match="bytes free, but the cache needs"):
        await extract(hostile_registry, unsigned(big, small_disk))
    assert hostile_registry.received("GET", BIG_BLOB) == []
    assert visible(small_disk) == []


@pytest.mark.parametrize("under", ["/proc/accelkit", "/dev/null/caches"])
async def test_unwritable_directory_is_reported(hostile_registry: HostileRegistry, big: Reference, under: str) -> None:
    with pytest.raises(CacheError, match=f"cannot write to {under}"):
        await extract(hostile_registry, unsigned(big, Path(under)))
    assert hostile_registry.received("GET", BIG_BLOB) == []
