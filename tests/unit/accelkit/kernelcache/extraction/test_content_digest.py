"""The record says what a cache holds, and whatever is changed of it is found."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hand_made_archives import GZIP, PLAIN, ZSTD, archive, file
from registries.hostile import HostileRegistry
from served_images import HELLO, extract, files_of, put_layers, unsigned

from accelkit.kernelcache.extraction import ExtractionResult, read_completed
from accelkit.kernelcache.extraction.integrity.content import FileContent, digest_contents, verify_content
from accelkit.kernelcache.extraction.rules import MAX_DEPTH

GROUP = json.dumps({"child_paths": {"k.cubin": "/build/K/k.cubin"}}).encode()
# Small, empty, in parts, and one that is rewritten for its mount path.
ACCENTED = "L/\N{LATIN SMALL LETTER E WITH ACUTE}"
LAYERS = [
    archive(
        file("io.triton.cache/K/k.cubin", os.urandom(3 << 20)),
        file("io.triton.cache/K/__grp__k.json", GROUP),
        file("io.triton.cache/K/empty", b""),
        file("io.triton.manifest/manifest.json", b"[]"),
    ),
    archive(file("io.triton.cache/K/empty", b"not any more"), file(f"io.triton.cache/{ACCENTED}")),
]


@pytest.fixture
async def done(hostile_registry: HostileRegistry, base: Path) -> ExtractionResult:
    return await extract(hostile_registry, unsigned(put_layers(hostile_registry, LAYERS), base, mount_path="/seen"))


@pytest.mark.parametrize("media_type", [GZIP, ZSTD, PLAIN])
async def test_content_digest_matches_the_extracted_files(
    hostile_registry: HostileRegistry, base: Path, media_type: str
) -> None:
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, LAYERS, media_type), base))
    whole = hashlib.sha256()
    found = files_of(done.place.cache)
    for path in sorted(found):
        whole.update(f"{hashlib.sha256(found[path]).hexdigest()} {len(found[path])} {path}\0".encode())
    assert done.record.content_digest == f"sha256:{whole.hexdigest()}"
    assert (done.record.files, done.record.size_bytes) == (len(found), sum(map(len, found.values())))


async def test_unchanged_cache_passes_verification(done: ExtractionResult) -> None:
    verdict = verify_content(done.place.cache, done.record)
    assert verdict is not None
    assert (verdict.holds, verdict.difference, verdict.digest) == (True, "", done.record.content_digest)


def rename(cache: Path) -> None:
    (cache / "K/k.cubin").rename(cache / "K/k.so")


def swap(cache: Path) -> None:
    (cache / "K/empty").rename(cache / "kept")
    (cache / ACCENTED).rename(cache / "K/empty")
    (cache / "kept").rename(cache / ACCENTED)


def flip(cache: Path) -> None:
    with (cache / "K/k.cubin").open("r+b") as opened:
        opened.seek(2 << 20)
        byte = opened.read(1)
        opened.seek(2 << 20)
        opened.write(bytes([byte[0] ^ 1]))


def replace_by_link(cache: Path) -> None:
    (cache / "K/k.cubin").rename(cache.parent / "k.cubin")
    (cache / "K/k.cubin").symlink_to(cache.parent / "k.cubin")


def nest(cache: Path) -> None:
    deep = cache / "/".join("d" * 40)
    deep.mkdir(parents=True)
    (deep / "file").touch()


def move_bytes(cache: Path) -> None:
    os.truncate(cache / "K/k.cubin", (3 << 20) - 1)
    (cache / "K/empty").write_bytes(b"not any more.")


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte": (flip, "files were changed or renamed"),
    "a name": (rename, "files were changed or renamed"),
    "two names": (swap, "files were changed or renamed"),
    "sizes": (move_bytes, "files were changed or renamed"),
    "one more": (lambda cache: (cache / "evil.so").touch(), "more than 4 files of 3145792 bytes"),
    "a file less": (lambda cache: (cache / "K/empty").unlink(), "the cache has 3 files"),
    "cut short": (lambda cache: os.truncate(cache / "K/k.cubin", 5), "the cache has 4 files of"),
    "a sparse file without end": (lambda cache: os.truncate(cache / "K/empty", 1 << 40), "more than 4 files of"),
    "a link": (replace_by_link, r"'K/k\.cubin' is not a file"),
    "a link to a folder": (lambda cache: (cache / "here").symlink_to("."), "'here' is not a file"),
    "a pipe": (lambda cache: os.mkfifo(cache / "pipe"), "'pipe' is not a file"),
    "deep folders": (nest, "exceeds the limits on the depth"),
    "a name that is no text": (lambda cache: Path(os.fsdecode(bytes(cache / "L") + b"/\xff")).touch(), "more than 4"),
}


async def test_foreign_empty_directories_are_removed_and_do_not_fail_verification(done: ExtractionResult) -> None:
    cache = done.place.cache
    # As the kubelet makes those of a subPath: one below the other, past the longest path of a system call.
    folder = os.open(cache, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("dd", dir_fd=folder)
        below = os.open("dd", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    (cache / "K" / "/".join("e" * 40)).mkdir(parents=True)
    (cache / "K" / "/".join("e" * 35) / "beside" / "it").mkdir(parents=True)
    for _ in range(2):
        verdict = verify_content(cache, done.record)
        assert verdict is not None
        assert (verdict.holds, verdict.difference) == (True, "")
    assert not (cache / "/".join(["dd"] * (MAX_DEPTH + 1))).exists()
    assert not (cache / "K" / "/".join("e" * 35)).exists()
    assert (cache / "K/empty").exists()


@pytest.mark.parametrize("name", CHANGES)
async def test_any_change_fails_verification(done: ExtractionResult, name: str) -> None:
    change, told = CHANGES[name]
    change(done.place.cache)
    verdict = verify_content(done.place.cache, done.record)
    assert verdict is not None
    assert verdict.holds is False
    assert re.search(told, verdict.difference)


async def test_record_without_digest_has_unknown_verdict_and_digest_is_reported(done: ExtractionResult) -> None:
    old = msgspec.structs.replace(done.record, content_digest="")
    verdict = verify_content(done.place.cache, old)
    assert verdict is not None
    assert (verdict.holds, verdict.digest) == (None, done.record.content_digest)
    (done.place.cache / "evil.so").touch()
    verdict = verify_content(done.place.cache, old)
    assert verdict is not None
    assert verdict.holds is False, "the count of the old record is still believed"


async def test_records_of_earlier_releases_are_read(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [HELLO])
    done = await extract(hostile_registry, unsigned(image, base))
    path = done.place.folder / "complete.json"
    document = json.loads(path.read_bytes())
    assert document.pop("content_digest")
    path.write_text(json.dumps(document))
    found = read_completed(done.place)
    assert found is not None
    assert found.content_digest == ""
    assert not (await extract(hostile_registry, unsigned(image, base))).fresh


async def test_verification_stops_on_request(done: ExtractionResult) -> None:
    taken: list[float] = []

    def rest(seconds: float) -> bool:
        taken.append(seconds)
        return len(taken) < 2

    assert verify_content(done.place.cache, done.record, rest) is None
    assert len(taken) == 2


def test_digest_depends_on_names_and_contents_but_not_on_order() -> None:
    one, other = FileContent.of(b"one"), FileContent.of(b"other")
    maps = [{"a": one}, {"a": other}, {"b": one}, {"a": one, "b": other}, {"a": other, "b": one}, {}]
    assert len({digest_contents(each) for each in maps}) == len(maps)
    assert digest_contents({"a": one, "b": other}) == digest_contents({"b": other, "a": one})
