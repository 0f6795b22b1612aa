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


class Trouble:
    """A trouble that is told once for as long as it stays the same.

    Args:
        log: where it is told.
        level: how loud.
    """

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._problem = ""

    def tell(self, problem: str, sentence: str) -> None:
        """Log `sentence` where `problem` is another one than the last."""
        if problem != self._problem:
            self._log.log(self._level, "%s", sentence)
        self._problem = problem

    def over(self) -> None:
        """Note that there is none, so that the same one is told again."""
        self._problem = ""


def log_of_service(name: str, folder: Path | None) -> None:
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
