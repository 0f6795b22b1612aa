"""Where file system and rights allow, nobody writes an extracted cache; it is deleted and replaced all the same."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hand_made_archives import archive, file
from registries.hostile import HostileRegistry
from served_images import HELLO, extract, files_of, put_layers, unsigned, visible

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction import read_completed
from accelkit.kernelcache.extraction.folder import Place
from accelkit.kernelcache.extraction.integrity import protection
from accelkit.kernelcache.extraction.integrity.protection import (
    ProtectionState,
    delete_tree,
    is_protected,
    protect,
    unprotect,
)
from accelkit.kernelcache.extraction.record import write_record

LAYER = archive(file("io.triton.cache/K/k.json", b"{}"), file("io.triton.cache/empty"))
# Protects argv[1] and is killed before the step argv[2].
KILLED = """
import fcntl, os, pathlib, signal, sys
from accelkit.kernelcache.extraction.integrity import protection
left = int(sys.argv[2])
def count(opened, request, *more, real=fcntl.ioctl):
    global left
    if request == protection._SET_FLAGS:
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
    return real(opened, request, *more)
protection.fcntl.ioctl = count
getattr(protection, sys.argv[3])(pathlib.Path(sys.argv[1]))
"""


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "caches"
    delete_tree(tmp_path / "caches")


@pytest.fixture
def able(tmp_path: Path) -> None:
    (tmp_path / "try").mkdir()
    able = protect(tmp_path / "try").state is ProtectionState.PROTECTED
    unprotect(tmp_path / "try")
    if not able:
        pytest.skip("no file can be made immutable here")


def attempts(cache: Path) -> dict[str, Callable[[], Any]]:
    """What somebody who mounts a cache writable may try."""
    kernel = cache / "K/k.json"
    return {
        "write": lambda: kernel.write_bytes(b"POISON"),
        "append": lambda: kernel.open("ab"),
        "truncate": lambda: os.truncate(kernel, 0),
        "delete": kernel.unlink,
        "rename": lambda: kernel.rename(cache / "K/other"),
        "replace the folder": lambda: (cache / "K").rename(cache / "L"),
        "add": (cache / "evil.so").touch,
        "add below": (cache / "K/evil.so").touch,
        "change the mode": lambda: kernel.chmod(0o777),
        "change the owner": lambda: os.chown(kernel, 1, 1),
        "change the times": lambda: os.utime(kernel, (1, 1)),
        "link": lambda: (cache.parent / "link").hardlink_to(kernel),
    }


async def protected(registry: HostileRegistry, base: Path) -> Place:
    return (await extract(registry, unsigned(put_layers(registry, [LAYER]), base, protect=True))).place


@pytest.mark.usefixtures("able")
async def test_protected_cache_is_readable_and_cannot_be_modified(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    place = await protected(hostile_registry, base)
    assert is_protected(place.cache)
    for name, attempt in attempts(place.cache).items():
        with pytest.raises(PermissionError):
            attempt()
        assert files_of(place.cache) == {"K/k.json": b"{}", "empty": b"content"}, name


@pytest.mark.usefixtures("able")
async def test_protection_preserves_file_times(hostile_registry: HostileRegistry, base: Path) -> None:
    place = (await extract(hostile_registry, unsigned(put_layers(hostile_registry, [LAYER]), base))).place
    os.utime(place.cache / "K/k.json", (1_000_000_000, 1_000_000_000))
    assert protect(place.cache).state is ProtectionState.PROTECTED
    assert (place.cache / "K/k.json").stat().st_mtime == 1_000_000_000


async def test_cache_is_not_protected_by_default(hostile_registry: HostileRegistry, base: Path) -> None:
    place = (await extract(hostile_registry, unsigned(put_layers(hostile_registry, [LAYER]), base))).place
    assert not is_protected(place.cache)
    for attempt in ("add", "write"):
        attempts(place.cache)[attempt]()


@pytest.mark.usefixtures("able")
async def test_files_are_protected_before_cache_becomes_visible(
    hostile_registry: HostileRegistry, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    real = protection._set_immutable

    def look(path: Path, *, immutable: bool) -> None:
        seen.append(visible(base))
        real(path, immutable=immutable)

    monkeypatch.setattr(protection, "_set_immutable", look)
    place = await protected(hostile_registry, base)
    assert seen
    assert all(names == [place.partial.name] for names in seen)


@pytest.mark.usefixtures("able")
async def test_record_of_protected_cache_can_be_rewritten(hostile_registry: HostileRegistry, base: Path) -> None:
    place = await protected(hostile_registry, base)
    record = read_completed(place)
    assert record is not None
    write_record(place.folder, record)
    assert read_completed(place) == record


@pytest.mark.usefixtures("able")
async def test_incomplete_protected_cache_is_replaced(hostile_registry: HostileRegistry, base: Path) -> None:
    place = await protected(hostile_registry, base)
    (place.folder / "complete.json").unlink()
    assert read_completed(await protected(hostile_registry, base)) is not None
    assert visible(base) == [place.folder.name]


# Files that are protected, the folder K, the cache's own: a kill before each step, and after all.
@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("work", ["protect", "unprotect"])
async def test_extraction_recovers_after_kill_during_protect_or_unprotect(
    hostile_registry: HostileRegistry, base: Path, step: int, work: str
) -> None:
    image = put_layers(hostile_registry, [LAYER])
    place = (await extract(hostile_registry, unsigned(image, base, protect=work == "unprotect"))).place
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(place.cache), str(step), work], check=False, capture_output=True
    )
    assert killed.returncode == -9, killed.stderr
    assert not is_protected(place.cache) or (work, step) == ("unprotect", 0), "the folder's own flag stands for all"
    place.folder.rename(place.partial)
    again = await extract(hostile_registry, unsigned(image, base, protect=True))
    assert again.fresh
    assert is_protected(place.cache)
    assert visible(base) == [place.folder.name]


@pytest.mark.usefixtures("able")
async def test_extraction_deletes_protected_leftovers_of_other_images(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    other = (await extract(hostile_registry, unsigned(put_layers(hostile_registry, [LAYER]), base, protect=True))).place
    other.folder.rename(other.partial)
    await extract(hostile_registry, unsigned(put_layers(hostile_registry, [HELLO]), base))
    assert not other.partial.exists()


@pytest.mark.parametrize(
    "refusal",
    [
        (errno.EPERM, ProtectionState.NOT_PERMITTED, "LINUX_IMMUTABLE"),
        (errno.ENOTTY, ProtectionState.NOT_SUPPORTED, "file system .* does not support"),
        (errno.EOPNOTSUPP, ProtectionState.NOT_SUPPORTED, "file system .* does not support"),
        (errno.EIO, ProtectionState.FAILED, "Input/output error"),
    ],
)
async def test_failed_protection_is_reported_and_cache_is_extracted(
    hostile_registry: HostileRegistry,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    refusal: tuple[int, ProtectionState, str],
) -> None:
    number, state, told = refusal

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(protection.fcntl, "ioctl", refuse_flags(refuse))
    place = await protected(hostile_registry, base)
    assert not is_protected(place.cache)
    assert read_completed(place) is not None
    found = protect(place.cache)
    assert found.state is state
    assert re.search(told, found.message)


def refuse_flags(refuse: Callable[..., None], real: Callable[..., Any] = fcntl.ioctl) -> Callable[..., Any]:
    def ioctl(opened: int, request: int, *more: Any) -> Any:
        return refuse() if request == protection._SET_FLAGS else real(opened, request, *more)

    return ioctl


@pytest.mark.usefixtures("able")
async def test_failed_deletion_of_protected_files_reports_required_capability(
    hostile_registry: HostileRegistry, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await protected(hostile_registry, base)
    (place.folder / "complete.json").unlink()
    place.folder.rename(place.partial)

    def refuse() -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(protection.fcntl, "ioctl", refuse_flags(refuse))
    with pytest.raises(CacheError, match="its files are protected; run as root with CAP_LINUX_IMMUTABLE"):
        await extract(hostile_registry, unsigned(put_layers(hostile_registry, [LAYER]), base))
