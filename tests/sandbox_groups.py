"""Distributes integration tests over processes, so that each sandbox is started once.

Tests that share a sandbox are one group, which `pytest --dist loadgroup` keeps in one process. The largest of them
begins first, and groups begin before the unit tests, which are many and short and keep every process busy to the end.
"""

from __future__ import annotations

import pytest

# The fixture of a session whose sandbox takes a run of site.yml. One of a module belongs to the tests of its file, as
# does the bare control plane, which is there within seconds: one process for all that use it would be busy alone.
_SHARED = "installed"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("integration") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    return _SHARED if _SHARED in getattr(item, "fixturenames", ()) else item.path.stem


class _IntegrationFirst:
    # After the random order was made, which stays within each part.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: (item.get_closest_marker("integration") is None, _group(item) != _SHARED))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "xdist_group(name): tests that run in one process, one after the other")
    config.pluginmanager.register(_IntegrationFirst())
