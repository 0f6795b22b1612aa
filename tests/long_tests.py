"""Leaves out the tests that are marked as long, unless `LONG_TESTS` is set.

They run whole playbooks again and again, for minutes each, and would not fit into the time of CI.
"""

from __future__ import annotations

import os

import pytest

REASON = "run by `make test-long`, since it takes minutes"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: runs playbooks for minutes; only with LONG_TESTS")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("LONG_TESTS"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason=REASON))
