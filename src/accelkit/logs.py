"""Where the services log: stdout, and files on the host that outlive their pods."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from enum import StrEnum
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

import msgspec

from accelkit.texts import clean

FORMAT = "%(asctime)s %(levelname)s %(name)s %(filename)s:%(lineno)d %(message)s"

_FILE_BYTES = 10 * 1024 * 1024
_FILES = 5
# A word that needs no quotes in a line of text.
_PLAIN: Final = re.compile(r"[!#-<>-~]+")
_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

log = logging.getLogger(__name__)


class LogFormat(StrEnum):
    """How a service writes its log: lines for people, or one JSON object per line."""

    TEXT = "text"
    JSON = "json"


class Facts:
    """A message with named values: `event name=value …` in text, members of the object in JSON.

    It is given to a logger as the message. The same values have the same names everywhere: `pod` (namespace and name),
    `uid` (of the pod: by it the lines of extender and node agent are brought together), `node`, `container`, `cards`,
    `seconds`. Values that users write are quoted, so that nobody writes a line of his own.

    Args:
        event: what happened; always the same words for the same thing.
        values: what JSON can hold; a mapping or a sequence is written as JSON in text too.
    """

    def __init__(self, event: str, **values: object) -> None:
        self.event = event
        self.values = values

    def __str__(self) -> str:
        return " ".join((self.event, *(f"{name}={_write_value(value)}" for name, value in self.values.items())))


class RepeatLog:
    """Logs what repeats once in an interval, with how often it was left out since (`repeats`).

    Args:
        log: the logger.
        seconds: the interval.
        keys: how many different things are remembered; the one logged longest ago is forgotten first.
        clock: seconds on a clock that never jumps.
    """

    def __init__(
        self,
        log: logging.Logger,
        *,
        seconds: float = 60.0,
        keys: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._seconds, self._keys, self._clock = log, seconds, keys, clock
        # When each was logged, and how often it was left out since.
        self._seen: OrderedDict[Hashable, tuple[float | None, int]] = OrderedDict()

    def info(self, key: Hashable, make: Callable[[], Facts]) -> None:
        """Log what `make` returns, unless the same key was logged within the interval; then `make` is not called."""
        if (repeats := self._count(key)) is not None and self._log.isEnabledFor(logging.INFO):
            facts = make()
            if repeats:
                facts.values["repeats"] = repeats
            self._log.info(facts, stacklevel=2)

    def warn(self, key: Hashable, message: str | Facts) -> None:
        """Log a warning, unless the same key was logged within the interval."""
        if self._count(key) is None:
            return
        if isinstance(message, Facts):
            self._log.warning(message, stacklevel=2)
        else:
            self._log.warning("%s", message, stacklevel=2)

    def _count(self, key: Hashable) -> int | None:
        """Return how often a key was left out since it was logged; None where it is left out again."""
        now = self._clock()
        logged_at, repeats = self._seen.get(key, (None, 0))
        if logged_at is not None and now - logged_at < self._seconds:
            self._seen[key] = logged_at, repeats + 1
            return None
        self._seen[key] = now, 0
        self._seen.move_to_end(key)
        if len(self._seen) > self._keys:
            self._seen.popitem(last=False)
        return repeats


class ErrorReporter:
    """Logs an error once for as long as it stays the same.

    Args:
        log: the logger.
        level: the level to log at.
    """

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._last: str | None = None

    def report(self, error: str, message: str) -> None:
        """Log `message` unless `error` is the one reported last."""
        if error != self._last:
            self._log.log(self._level, "%s", message)
        self._last = error

    def clear(self) -> None:
        """Note that the operation works again, so that the same error is logged anew when it comes back."""
        self._last = None


def set_up_log(level: str) -> None:
    """Log to stderr from this level on, unless the program logs already."""
    logging.basicConfig(level=level, format=FORMAT, handlers=[_LogStream(sys.stderr)])


def set_up_service_log(name: str, folder: Path | None, log_format: LogFormat = LogFormat.TEXT) -> None:
    """Log to stdout, and to `<folder>/<name>.log` where a folder is given, both in this format.

    Files are turned over at 10 MiB; the five before are kept. A folder that cannot be written is a warning: no service
    ends for its log.
    """
    root = logging.getLogger()
    formatter = _JsonFormatter() if log_format is LogFormat.JSON else _TextFormatter(FORMAT)
    for handler in root.handlers:
        if isinstance(handler, _LogStream):
            handler.setStream(sys.stdout)
            handler.setFormatter(formatter)
    if folder is None:
        return
    try:
        file = _LogFile(folder / f"{name}.log", maxBytes=_FILE_BYTES, backupCount=_FILES, encoding="utf-8")
    except OSError as exc:
        log.warning("no log is kept in %s: %s; make the folder writable for uid of this service", folder, exc.strerror)
        return
    file.setFormatter(formatter)
    root.addHandler(file)


class _Handler(logging.StreamHandler[TextIO]):
    """One warning while lines cannot be written, where `logging` prints a traceback for each.

    A log call that is wrong keeps its traceback.
    """

    _lost = 0
    _warning = ""

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a line; a warning goes to the other handlers, without this one's lock, which they may wait for."""
        handled = super().handle(record)
        warning, self._warning = self._warning, ""
        if warning:
            log.warning("%s", warning)
        return handled

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, and note whether it was written."""
        lost = self._lost
        super().emit(record)
        if lost and lost == self._lost:
            self._warning = f"{self._describe()} is written again, {lost} lines may be missing"
            self._lost = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Note a warning for the first line that cannot be written."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError) and not (self.stream and self.stream.closed):
            super().handleError(record)
            return
        self._lost += 1
        if self._lost == 1:
            cause = error.strerror if isinstance(error, OSError) else "it is closed"
            self._warning = (
                f"cannot write {self._describe()}: {cause}. Free space, or make it writable: log lines are lost"
            )

    def _describe(self) -> str:
        return "the log"


class _LogStream(_Handler):
    """Standard error or standard output; a stream that was closed before the start takes nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream is not None:
            super().emit(record)

    def _describe(self) -> str:
        return "standard output" if self.stream is sys.stdout else "standard error"


class _LogFile(_Handler, RotatingFileHandler):
    """A file that is opened again where it could not be turned over."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        super().handleError(record)
        if self.stream and self.stream.closed:
            self.stream = None

    def _describe(self) -> str:
        return self.baseFilename


class _TextFormatter(logging.Formatter):
    """One line of text, then the traceback of an error where there is one."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        # Names and commands of containers are their users'.
        return clean(super().formatMessage(record))

    def formatException(self, ei: _ExceptionInfo) -> str:  # noqa: N802 - logging's name
        return "\n".join(map(clean, super().formatException(ei).split("\n")))


class _JsonFormatter(logging.Formatter):
    """One JSON object per line; the members that every line has win over facts of the same name."""

    def format(self, record: logging.LogRecord) -> str:
        facts = record.msg if isinstance(record.msg, Facts) else None
        line: dict[str, object] = {
            **(facts.values if facts else {}),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "source": f"{record.filename}:{record.lineno}",
            "message": facts.event if facts else record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return clean(msgspec.json.encode(line, enc_hook=str).decode(errors="replace"))


def _write_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return msgspec.json.encode(value, enc_hook=str).decode(errors="replace")
