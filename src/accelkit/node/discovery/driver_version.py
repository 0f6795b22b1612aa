"""Reads the version of the driver that a card runs under, as whoever made the driver counts it."""

from __future__ import annotations

import re
from typing import Final

from accelkit.model.card import MAX_DRIVER_VERSION
from accelkit.node.discovery.card_sources import Device
from accelkit.node.discovery.sysfs import read_bounded

_VERSION: Final = re.compile(rf"[0-9][A-Za-z0-9.+_~-]{{0,{MAX_DRIVER_VERSION - 1}}}", re.ASCII)


def read_driver_version(device: Device, driver: str | None) -> str:
    """Return the version; empty where nobody says it.

    A module that comes with the kernel mostly has none: it is as old as the kernel, and nothing is compared with that.

    Args:
        device: the card.
        driver: that is bound to it; None where none is, or where that cannot be seen.
    """
    # The library speaks for the driver that runs, and for the cards that it knows.
    told = device.host.nvml.read_driver_version() if device.host.nvml and device.nvml else None
    if told is None and driver is not None and driver in device.discovery.drivers:
        told = read_bounded(device.host.root / "sys/module" / driver / "version", MAX_DRIVER_VERSION + 1)
    version = (told or "").strip()
    return version if _VERSION.fullmatch(version) else ""
