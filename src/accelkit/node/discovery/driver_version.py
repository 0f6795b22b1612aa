"""Reader of a card's driver version, in the vendor's version scheme."""

from __future__ import annotations

import re
from typing import Final

from accelkit.model.card import MAX_DRIVER_VERSION
from accelkit.node.discovery.card_sources import Device
from accelkit.node.discovery.sysfs import read_bounded

_VERSION: Final = re.compile(rf"[0-9][A-Za-z0-9.+_~-]{{0,{MAX_DRIVER_VERSION - 1}}}", re.ASCII)


def read_driver_version(device: Device, driver: str | None) -> str:
    """Return the version of the card's driver; empty if it is unknown.

    Most in-tree kernel modules do not have a version. In this case, the kernel version is not used as a substitute.

    Args:
        device: the card.
        driver: the driver that is bound to the card; None if no driver is bound or the driver is unknown.
    """
    # The library reports the version of the loaded driver, but only for the cards that it detects.
    text = device.host.nvml.read_driver_version() if device.host.nvml and device.nvml else None
    if text is None and driver is not None and driver in device.discovery.drivers:
        text = read_bounded(device.host.root / "sys/module" / driver / "version", MAX_DRIVER_VERSION + 1)
    version = (text or "").strip()
    return version if _VERSION.fullmatch(version) else ""
