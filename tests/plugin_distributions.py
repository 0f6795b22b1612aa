"""Distributions with plug-ins, as pip leaves them: metadata and modules in a folder on Python's path."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from accelkit.node import host_files
from accelkit.node.discovery import card_sources
from accelkit.plugins import catalogue
from accelkit.vendors import advertised, dialects, profiles

_CACHES = (
    catalogue.list_plugins,
    card_sources.load_card_source,
    dialects.load_dialect,
    dialects.load_usable_dialects,
    host_files.list_host_files,
    advertised._list_advertisable,
    profiles.find_profiles,
    profiles.load_usable_profiles,
)


def forget() -> None:
    """Forget which plug-ins there are: a process looks once."""
    for cached in _CACHES:
        cached.cache_clear()


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self, name: str, version: str = "1.0", *, files: Mapping[str, str] | None = None, **groups: str
    ) -> None:
        """Install a distribution: `policies="tight = acme:tight"`, lines of a group, and files by their paths."""
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        written = {
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/entry_points.txt": "".join(f"[accelkit.{group}]\n{lines}\n" for group, lines in groups.items()),
            **(files or {}),
        }
        for path, text in written.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)
        self.unload()
        forget()

    def unload(self) -> None:
        """Have Python forget what was imported from here."""
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(self.folder)):
                del sys.modules[name]


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty folder of distributions that this process looks into; afterwards there is nothing of it any more."""
    site = Site(tmp_path_factory.mktemp("site"))
    monkeypatch.syspath_prepend(site.folder)
    forget()
    yield site
    site.unload()
    monkeypatch.undo()
    forget()
