"""Where the services log: stdout, and files on the host that outlive their pods."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

FORMAT = "%(asctime)s %(levelname)s %(name)s %(filename)s:%(lineno)d %(message)s"

_FILE_BYTES = 10 * 1024 * 1024
_FILES = 5

log = logging.getLogger(__name__)


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


def set_up_service_log(name: str, folder: Path | None) -> None:
    """Log to stdout, and to `<folder>/<name>.log` where a folder is given.

    Files are turned over at 10 MiB; the five before are kept. A folder that cannot be written is a warning: no service
    ends for its log.
    """
    root = logging.getLogger()
    for handler in root.handlers:
        if type(handler) is logging.StreamHandler:
            handler.setStream(sys.stdout)
    if folder is None:
        return
    try:
        file = RotatingFileHandler(folder / f"{name}.log", maxBytes=_FILE_BYTES, backupCount=_FILES, encoding="utf-8")
    except OSError as exc:
        log.warning("no log is kept in %s: %s; make the folder writable for uid of this service", folder, exc.strerror)
        return
    file.setFormatter(logging.Formatter(FORMAT))
    root.addHandler(file)
