"""The agent looks whether its caches are what was extracted, protects them, and takes out what is not."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_worlds import A, B, desired, folder, stored, world
from content_stand import KERNEL, ContentStand

from accelkit.cacheagent.disk import content as module
from accelkit.cacheagent.planning.plan import make_plan
from accelkit.cacheagent.planning.world import WITHDRAWN
from accelkit.cacheagent.reporting.report import build_reports
from accelkit.kernelcache.extraction import CompletionRecord
from accelkit.kernelcache.extraction.integrity import protection
from accelkit.kernelcache.extraction.integrity.content import FileContent, digest_contents
from accelkit.kernelcache.extraction.integrity.protection import (
    delete_tree,
)

LINK = "0123456789abcdef0123"
pytestmark = pytest.mark.usefixtures("unable")


@pytest.fixture
async def stand(tmp_path: Path) -> Any:
    stand = ContentStand(tmp_path / "store")
    await stand.store.open()
    yield stand
    delete_tree(tmp_path / "store")


@pytest.fixture
def unable(monkeypatch: pytest.MonkeyPatch) -> None:
    """No capability, as in a container that was given none."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(protection, "_set_immutable", refuse)


async def test_missing_protection_is_logged_once_and_counted(stand: ContentStand, caplog: Any) -> None:
    stand.put()
    for _ in range(3):
        await stand.look()
    told = [each.getMessage() for each in caplog.records]
    assert [each for each in told if "not protected" in each and "LINUX_IMMUTABLE" in each] == told
    assert len(told) == 1
    assert stand.count("accelkit_kernel_cache_protection", state="not-permitted") == 1
    assert stand.count("accelkit_kernel_cache_protection", state="protected") == 0
    assert set(stand.store.stored) == {folder(A)}, "it serves all the same"


async def test_changed_content_is_detected_at_next_check_and_removed(stand: ContentStand) -> None:
    kernel, other = stand.put(), stand.put(B)
    await stand.look()
    stand.store.move_link(LINK, folder(A))
    kernel.write_bytes(b"POISON")
    await stand.look()
    assert set(stand.store.stored) == {folder(B)}
    assert (kernel.exists(), other.read_bytes()) == (False, KERNEL)
    assert stand.store.links == {LINK: WITHDRAWN}
    assert not (stand.root / "claims" / LINK).exists()
    assert stand.woken == 1
    assert "differed from the extracted files (files were changed or renamed" in stand.looks.changed[folder(A)]
    assert stand.count("accelkit_kernel_cache_content_changed_total") == 1


async def test_added_file_is_detected_at_agent_start(stand: ContentStand) -> None:
    (stand.put().parent / "evil.so").touch()
    await stand.look()
    assert stand.store.stored == {}


async def test_record_of_older_release_gets_content_digest_at_first_check(stand: ContentStand) -> None:
    kernel = stand.put(content_digest="")
    await stand.look()
    assert stand.record().content_digest == digest_contents({"k.cubin": FileContent.of(KERNEL)})
    kernel.write_bytes(b"POISON")
    await stand.look()
    assert stand.store.stored == {}


async def test_failed_content_check_is_logged_once_and_removes_nothing(
    stand: ContentStand, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    stand.put()
    stand.put(B)

    def fail(cache: Path, *_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", str(cache))

    monkeypatch.setattr(module, "verify_content", fail)
    await stand.look()
    await stand.look()
    assert set(stand.store.stored) == {folder(A), folder(B)}
    assert sum("cannot check or protect" in each.getMessage() for each in caplog.records) == 2


async def test_content_check_stops_when_agent_is_cancelled(
    stand: ContentStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.put()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read(_cache: Path, _record: CompletionRecord, rest: Callable[[float], bool]) -> None:
        loop.call_soon_threadsafe(begun.set)
        while rest(0.01):
            pass

    monkeypatch.setattr(module, "verify_content", read)
    await stand.store.refresh()
    looking = asyncio.create_task(stand.looks.check_all())
    async with asyncio.timeout(30):
        await begun.wait()
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking


async def test_replaced_folder_is_not_removed_for_content_of_former_folder(
    stand: ContentStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.put().write_bytes(b"POISON")
    real = module._verify

    async def verify(*given: Any) -> Any:
        verdict = await real(*given)
        await stand.store.collect(folder(A))
        stand.put()
        return verdict

    monkeypatch.setattr(module, "_verify", verify)
    await stand.look()
    assert (stand.root / folder(A) / "cache" / "k.cubin").read_bytes() == KERNEL
    assert stand.looks.changed == {}


def conditions(**changes: Any) -> dict[str, Any]:
    now = world(desired(), changed={folder(A): "somebody wrote"}, **changes)
    entry = build_reports(now, make_plan(now), {}, node_name="n", root="/r")["team"].caches["add"][A]
    return {each.type: each for each in entry.conditions}


def test_report_states_content_change_and_recovery():
    gone = conditions()
    assert {gone[each].reason for each in ("Extracted", "Ready", "Degraded")} == {"ContentChanged"}
    assert (gone["Ready"].status, gone["Ready"].message) == ("False", "somebody wrote")
    again = conditions(stored={folder(A): stored()}, links={world(desired()).name_link("team/add"): folder(A)})
    assert (again["Ready"].status, again["Degraded"].status, again["Degraded"].message) == (
        "True",
        "True",
        "somebody wrote",
    )
