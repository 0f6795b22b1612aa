"""Logging for the services, to stdout and to files on the host, which are not deleted with the pods."""

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
# Words that do not require quotes in a line of text.
_PLAIN: Final = re.compile(r"[!#-<>-~]+")
_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

log = logging.getLogger(__name__)


class LogFormat(StrEnum):
    """The format of a service log: lines of text, or one JSON object per line."""

    TEXT = "text"
    JSON = "json"


class Facts:
    """A message with named values. Text logs contain `event name=value …`. In JSON logs, the values are object members.

    Use an instance as the message of a logger. All components use the same names: `pod` (namespace and name), `uid`
    (the UID of the pod, which correlates logs of the extender and the node agent), `node`, `container`, `cards`,
    `seconds`. Values from users are quoted, so that a user cannot forge log lines.

    Args:
        event: the text of the event, which is the same each time.
        values: values that JSON can represent. Text logs also contain mappings and sequences as JSON.
    """

    def __init__(self, event: str, **values: object) -> None:
        self.event = event
        self.values = values

    def __str__(self) -> str:
        return " ".join((self.event, *(f"{name}={_write_value(value)}" for name, value in self.values.items())))


class RepeatLog:
    """Logger that logs a repeated message at most once per interval. `repeats` is the number of suppressed messages.

    Args:
        log: the logger.
        seconds: the interval.
        keys: the maximum number of stored keys. The least recently logged key is dropped first.
        clock: a monotonic clock in seconds.
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
        # The time at which each key was last logged, and the number of repeats since then.
        self._logged: OrderedDict[Hashable, tuple[float | None, int]] = OrderedDict()

    def info(self, key: Hashable, make: Callable[[], Facts]) -> None:
        """Log the facts that `make` returns. Do not call `make` if the same key was logged within the interval."""
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
        """Return the number of repeats since the key was last logged; None if the interval has not elapsed."""
        now = self._clock()
        logged_at, repeats = self._logged.get(key, (None, 0))
        if logged_at is not None and now - logged_at < self._seconds:
            self._logged[key] = logged_at, repeats + 1
            return None
        self._logged[key] = now, 0
        self._logged.move_to_end(key)
        if len(self._logged) > self._keys:
            self._logged.popitem(last=False)
        return repeats


class ErrorReporter:
    """Logger that does not log an error again until a different error occurs.

    Args:
        log: the logger.
        level: the level of the messages.
    """

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._last: str | None = None

    def report(self, error: str, message: str) -> None:
        """Log `message`, unless `error` equals the last reported error."""
        if error != self._last:
            self._log.log(self._level, "%s", message)
        self._last = error

    def clear(self) -> None:
        """Record that the operation succeeded, so that the same error is logged again when it recurs."""
        self._last = None


def set_up_log(level: str) -> None:
    """Log messages of this level or higher to stderr, unless logging is already configured."""
    logging.basicConfig(level=level, format=FORMAT, handlers=[_LogStream(sys.stderr)])


def set_up_service_log(name: str, folder: Path | None, log_format: LogFormat = LogFormat.TEXT) -> None:
    """Log to stdout and, if a folder is given, to `<folder>/<name>.log`, in this format.

    Files are rotated at 10 MiB, and the last five files are kept. If the folder is not writable, a warning is logged,
    because a logging problem must not stop a service.
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
        log.warning(
            "cannot write a log file in %s: %s. Make the folder writable for the UID of this service.",
            folder,
            exc.strerror,
        )
        return
    file.setFormatter(formatter)
    root.addHandler(file)


class _Handler(logging.StreamHandler[TextIO]):
    """Handler that logs a single warning if lines cannot be written. `logging` would print a traceback for each line.

    For incorrect logging calls, it prints a traceback.
    """

    _lost = 0
    _warning = ""

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a line. After the lock of this handler is released, log a pending warning to all handlers."""
        handled = super().handle(record)
        warning, self._warning = self._warning, ""
        if warning:
            log.warning("%s", warning)
        return handled

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, and record whether it was written."""
        lost = self._lost
        super().emit(record)
        if lost and lost == self._lost:
            self._warning = f"{self._describe()} is writable again; {lost} lines may be missing"
            self._lost = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Record a warning for the first line that cannot be written."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError) and not (self.stream and self.stream.closed):
            super().handleError(record)
            return
        self._lost += 1
        if self._lost == 1:
            cause = error.strerror if isinstance(error, OSError) else "it is closed"
            self._warning = (
                f"cannot write {self._describe()}: {cause}. Log lines are lost. Free space, or make it writable."
            )

    def _describe(self) -> str:
        return "the log"


class _LogStream(_Handler):
    """Handler for standard error or standard output. It does nothing if the stream was closed at program start."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream is not None:
            super().emit(record)

    def _describe(self) -> str:
        return "standard output" if self.stream is sys.stdout else "standard error"


class _LogFile(_Handler, RotatingFileHandler):
    """Handler for a log file. It opens the file again after a failed rotation."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        super().handleError(record)
        if self.stream and self.stream.closed:
            self.stream = None

    def _describe(self) -> str:
        return self.baseFilename


class _TextFormatter(logging.Formatter):
    """Formatter that returns a line of text, followed by the traceback of an error, if any."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        # Users choose the names and commands of containers, so these values may contain control characters.
        return clean(super().formatMessage(record))

    def formatException(self, ei: _ExceptionInfo) -> str:  # noqa: N802 - logging's name
        return "\n".join(map(clean, super().formatException(ei).split("\n")))


class _JsonFormatter(logging.Formatter):
    """Formatter that returns a JSON object on one line. Standard members override facts with the same name."""

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
