"""What a round of fuzzing is: many objects and decisions that follow from one seed, with what must hold throughout."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from accelkit.logs import FORMAT

# Of processor time, on a machine that does other things too. What is bounded takes a hundredth of it.
OBJECT_SECONDS = 1.0
LOG_LINE = 4096
SENTENCE = 1000
_SHOWN = 2000


class FindingError(AssertionError):
    """A property that does not hold.

    Attributes:
        kind: what is wrong, the same for every object of which it is.
        shown: the object.
    """

    def __init__(self, kind: str, shown: object = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.shown = shown

    def __str__(self) -> str:
        return f"{self.kind}: {shorten(self.shown)}"


@dataclass
class Tally:
    """What was done: how often what, and which took longest.

    Attributes:
        objects: generated pods, nodes, ConfigMaps, inventories and messages.
        counts: what was done with them, by name.
        slowest: for each name the longest processor time of one, and what it was done to.
    """

    objects: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, tuple[float, str]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Count another one in."""
        self.objects += other.objects
        self.counts += other.counts
        for name, found in other.slowest.items():
            self.slowest[name] = max(found, self.slowest.get(name, (0.0, "")))

    @contextlib.contextmanager
    def measure(self, name: str, subject: object) -> Iterator[None]:
        """Do one thing; anything that is raised, and more than a second of it, is a finding."""
        self.counts[name] += 1
        began = time.thread_time()
        try:
            yield
        except FindingError:
            raise
        except Exception as exc:
            raise FindingError(f"{name} raises {describe_exception(exc)}", subject) from exc
        took = time.thread_time() - began
        if took > OBJECT_SECONDS:
            raise FindingError(f"{name} takes long", {"seconds": took, "of": subject})
        if took > self.slowest.get(name, (0.0, ""))[0]:
            self.slowest[name] = took, shorten(subject)


class Journal(logging.Handler):
    """Writes every line of the log as the services do, and keeps none.

    Attributes:
        longest: the longest line.
        raised: the first exception that was contained: logged so that the others go on. It is a defect all the same.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter(FORMAT))
        self.longest = ""
        self.raised: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the longest line."""
        if record.exc_info and self.raised is None:
            self.raised = record.exc_info[1]
        line = self.format(record)
        if len(line) > len(self.longest):
            self.longest = line


@contextlib.contextmanager
def reading_log() -> Iterator[Journal]:
    """Read what is logged; a line that is too long is a finding, and an exception."""
    root, journal = logging.getLogger("accelkit"), Journal()
    before = root.level, root.propagate
    root.addHandler(journal)
    root.setLevel(logging.INFO)
    root.propagate = False
    try:
        yield journal
    finally:
        root.removeHandler(journal)
        root.setLevel(before[0])
        root.propagate = before[1]
    if journal.raised is not None:
        raise FindingError(f"contained, but raised: {describe_exception(journal.raised)}", str(journal.raised))
    if len(journal.longest) > LOG_LINE:
        where = " ".join(journal.longest.split(" ", 6)[2:5])
        raise FindingError(f"a line of the log is too long: {where}", journal.longest)


def check_sentence(what: str, text: str, subject: object) -> None:
    """See that what people read is no longer than they read."""
    if len(text) > SENTENCE:
        raise FindingError(f"{what} has more than {SENTENCE} characters", [text[:200], subject])


def shorten(subject: object) -> str:
    """Return an object as JSON of bearable length."""
    text = subject if isinstance(subject, str) else json.dumps(subject, default=_describe)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def _describe(value: Any) -> object:
    return value.hex() if isinstance(value, bytes) else repr(value)


def describe_exception(exc: BaseException) -> str:
    """Return an exception's name, and where in accelkit it was raised."""
    place, trace = "elsewhere", exc.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "/accelkit/" in code.co_filename:
            place = f"in {code.co_filename.rpartition('/src/')[2]} {code.co_name}"
        trace = trace.tb_next
    return f"{type(exc).__name__} {place}"
