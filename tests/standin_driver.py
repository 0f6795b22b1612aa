"""What a container with a driver does to its host, done to files: modules, device nodes, libraries come and go.

No kernel takes a module here. What is laid down is what discovery and health really read.
"""

from __future__ import annotations

from pathlib import Path

from accelkit.sandbox.fake_host.files import FakeCard
from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.vendors.profiles import load_profiles

LIBRARIES = "usr/lib/x86_64-linux-gnu"


class StandinDriver:
    """The drivers of all vendors that have cards on a host, built for one kernel.

    Args:
        host: whose files are written.
        kernel: the release that the modules are for.
    """

    def __init__(self, host: FakeHost, kernel: str) -> None:
        self._host, self._kernel = host, kernel

    def load(self, running: str, version: str = "") -> bool:
        """Load the modules and lay down the libraries; False where the kernel that runs refuses them.

        Args:
            running: the kernel.
            version: that the modules tell; empty where they tell none.
        """
        if running != self._kernel:
            return False
        for card in self._host.cards:
            self._host.bind(card.bdf)
        for card in self._host.cards if version else ():
            self._host.write(self._name_version(card), version)
        for library in self._list_libraries():
            library.parent.mkdir(parents=True, exist_ok=True)
            library.write_bytes(b"")
        return True

    def unload(self) -> None:
        """Take all of it away again."""
        for card in self._host.cards:
            self._host.unbind(card.bdf)
            (self._host.root / self._name_version(card)).unlink(missing_ok=True)
        for library in self._list_libraries():
            library.unlink(missing_ok=True)

    def _name_version(self, card: FakeCard) -> str:
        return f"sys/module/{card.model.driver}/version"

    def _list_libraries(self) -> list[Path]:
        profiles = load_profiles()
        names = {name for card in self._host.cards for name in profiles[card.vendor].libraries}
        return [self._host.root / LIBRARIES / name for name in sorted(names)]
