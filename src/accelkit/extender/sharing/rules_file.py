"""The sharing rules file, which is read at startup and after each change."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from accelkit.errors import ConfigurationError
from accelkit.logs import ErrorReporter
from accelkit.placement.sharing.rules import SharingRules
from accelkit.placement.sharing.rules_text import MOST_BYTES, parse_rules

log = logging.getLogger(__name__)

_TURN_SECONDS: Final = 2.0


class RulesFile:
    """The sharing rules file.

    Args:
        path: the path of a YAML document.

    Attributes:
        current: whether the active rules match the file.
    """

    def __init__(self, path: Path) -> None:
        self.current = True
        self._path = path
        self._digest = b""
        self._errors = ErrorReporter(log, logging.ERROR)

    def read(self) -> SharingRules:
        """Return the rules from the file.

        Raises:
            ConfigurationError: the rules cannot be read; the error contains the next step.
        """
        try:
            return self._parse(self._load())
        except ConfigurationError as exc:
            raise ConfigurationError(
                f"{self._path}: {exc.message}",
                next_step=exc.next_step or "correct the file as described in docs/how-to/sharing-rules.md, and restart",
            ) from exc

    async def run(self, take: Callable[[SharingRules], None]) -> None:
        """Call `take` with the rules after each change until cancelled; unreadable rules are ignored."""
        while True:
            await asyncio.sleep(_TURN_SECONDS)
            self.reload(take)

    def reload(self, take: Callable[[SharingRules], None]) -> None:
        """Read the file once, and call `take` with its rules if they have changed."""
        try:
            text = self._load()
            if hashlib.sha256(text).digest() == self._digest:
                self._report("")
                return
            rules = self._parse(text)
        except ConfigurationError as exc:
            self._report(str(exc))
            return
        self._report("")
        log.info(
            "sharing rules read path=%s quotas=%d reservations=%d",
            self._path,
            len(rules.quotas),
            len(rules.reservations),
        )
        take(rules)

    def _load(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                return file.read(MOST_BYTES + 1)
        except OSError as exc:
            raise ConfigurationError(f"cannot read the sharing rules: {exc}") from exc

    def _parse(self, text: bytes) -> SharingRules:
        rules = parse_rules(text)
        self._digest = hashlib.sha256(text).digest()
        return rules

    def _report(self, problem: str) -> None:
        self.current = not problem
        if problem:
            self._errors.report(problem, f"{self._path}: {problem}; the previous rules remain active")
        else:
            self._errors.clear()
