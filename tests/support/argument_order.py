"""Sorted arguments, because pytest 9.1 loses fixtures where a file stands between two folders.

For a file, pytest collects the folder of the file again. The new objects of its subfolders lack the fixtures of the
`conftest.py` files that were read before: https://github.com/pytest-dev/pytest/issues/14635. Sorted by path, no
argument stands between two arguments of the same folder. pytest 9.2 needs no order.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.args.sort(key=lambda argument: Path(argument.partition("::")[0]).parts)
