"""Distributes integration tests over processes, so that each sandbox is started once.

Tests that share a sandbox are one group, which `pytest --dist loadgroup` keeps in one process. Groups begin before the
unit tests, which are many and short and so keep every process busy to the end.
"""

from __future__ import annotations

import pytest

# Fixtures of a session that are a sandbox; a sandbox of a module belongs to the tests of its file.
_SHARED = ("installed", "control_plane")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("integration") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    used = getattr(item, "fixturenames", ())
    return next((name for name in _SHARED if name in used), item.path.stem)


class _IntegrationFirst:
    # After the random order was made, which stays within both halves.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("integration") is None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "xdist_group(name): tests that run in one process, one after the other")
    config.pluginmanager.register(_IntegrationFirst())
