"""Commands whose service is not started."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


def record_options(monkeypatch: pytest.MonkeyPatch, command: ModuleType) -> list[Any]:
    """Replace `run` of a module with a command; return the list of the options that it receives."""
    options: list[Any] = []

    async def run(given: Any) -> None:
        options.append(given)

    monkeypatch.setattr(command, "run", run)
    return options
