"""The sequence of tests in the container of a check pod, which stops at the first failure."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from accelkit.enablement.work.device_patterns import list_card_nodes, list_control_nodes
from accelkit.enablement.work.share_check.cpu import add_on_cpu
from accelkit.enablement.work.share_check.cuda import LIBRARY, Driver, add_on_cards, load_driver
from accelkit.enablement.work.share_check.devices import open_devices
from accelkit.enablement.work.share_check.evidence import ShareEvidence, WorkError
from accelkit.model.keys import MEMORY_VARIABLE
from accelkit.vendors.profiles import Profile


def check_share(
    environ: Mapping[str, str],
    devices: Path,
    profiles: Iterable[Profile],
    *,
    load: Callable[[], Driver | None] = load_driver,
) -> ShareEvidence:
    """Read the share of this container, and run a computation on it.

    Args:
        environ: the environment variables of the container.
        devices: the container's `/dev`.
        profiles: the profiles of all vendors.
        load: a function that loads NVIDIA's driver library.
    """
    started = time.monotonic()
    known = list(profiles)
    found = ShareEvidence(
        passed=False,
        variables={name: environ[name] for profile in known for name in sorted(profile.environment) if name in environ},
        device_nodes=list_card_nodes(devices, known),
    )
    try:
        memory_bytes = _read_limit(environ)
        found = msgspec.structs.replace(found, memory_bytes=memory_bytes)
        nodes = (*found.device_nodes, *list_control_nodes(devices, known))
        found = msgspec.structs.replace(found, closed=open_devices(devices, nodes))
        work, identities = _compute(memory_bytes, load() if _has_nvidia(nodes) else None)
        found = msgspec.structs.replace(found, passed=True, work=work, identities=identities)
    except WorkError as exc:
        found = msgspec.structs.replace(found, reason=exc.reason, detail=exc.message)
    return msgspec.structs.replace(found, seconds=round(time.monotonic() - started, 3))


def run_with_deadline(work: Callable[[], ShareEvidence], seconds: float) -> ShareEvidence:
    """Run the work in a thread, because driver calls cannot be interrupted; return a failure after the time limit."""
    answers: queue.SimpleQueue[ShareEvidence] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put(work())
        except Exception as exc:  # noqa: BLE001 - the pod reports every error
            answers.put(ShareEvidence(passed=False, reason="WorkFailed", detail=f"{type(exc).__name__}: {exc}"))

    threading.Thread(target=run, name="share-check", daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        detail = f"the work did not end within {seconds:g} s; the driver may not respond"
        return ShareEvidence(passed=False, reason="TimedOut", detail=detail, seconds=seconds)


def _read_limit(environ: Mapping[str, str]) -> int:
    text = environ.get(MEMORY_VARIABLE, "")
    if not text.isdecimal() or int(text) < 1:
        raise WorkError("WrongLimit", f"{MEMORY_VARIABLE} is {text[:40]!r}, which is not a valid amount of memory")
    return int(text)


def _has_nvidia(nodes: Iterable[str]) -> bool:
    # The image may contain the library even for cards of other vendors, but the library is not usable for them.
    return any(node.startswith("/dev/nvidia") for node in nodes)


def _compute(memory_bytes: int, driver: Driver | None) -> tuple[str, tuple[str, ...]]:
    if driver is not None:
        return add_on_cards(driver, memory_bytes)
    return f"{add_on_cpu(memory_bytes)}, because {LIBRARY} or a card of its vendor is missing", ()
