"""The memory source `orrery-banks`: the driver of Orrery shows banks of memory, and not their sum."""

from __future__ import annotations

from accelkit.node.discovery.card_sources import CardSource, Device, Memory

ACCELKIT_INTERFACE = 1


class Banks(CardSource):
    """Reads `banks/*/bytes` of a card's folder in sysfs; a bank that cannot be read leaves the memory unknown."""

    def read_memory(self, device: Device) -> Memory | None:
        """Return the sum of all banks; None where the driver shows none."""
        try:
            sizes = [int((bank / "bytes").read_text()) for bank in (device.folder / "banks").iterdir()]
        except (OSError, ValueError):
            return None
        return Memory(sum(sizes), self.source.name) if sizes else None
