"""Memory source `orrery-banks`, which adds up the sizes of the memory banks that the driver of Orrery reports."""

from __future__ import annotations

from accelkit.node.discovery.card_sources import CardSource, Device, Memory

ACCELKIT_INTERFACE = 1


class Banks(CardSource):
    """Memory source that reads `banks/*/bytes` in the sysfs folder of a card.

    If a bank cannot be read, the memory of the card is unknown.
    """

    def read_memory(self, device: Device) -> Memory | None:
        """Return the total size of all banks, or None if the driver does not report any banks."""
        try:
            sizes = [int((bank / "bytes").read_text()) for bank in (device.folder / "banks").iterdir()]
        except (OSError, ValueError):
            return None
        return Memory(sum(sizes), self.source.name) if sizes else None
