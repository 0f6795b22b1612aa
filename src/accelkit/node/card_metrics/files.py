"""Reader of a card's measures, from the files that the measure table lists for the card's kernel driver."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from accelkit.node.card_metrics.reading import CardReading
from accelkit.node.discovery.sysfs import read_bounded, read_integer
from accelkit.vendors.measures import MeasureFile, find_measure_files

# The maximum size of an attribute in sysfs, which is one page.
_PAGE: Final = 4096
_LINE: Final = re.compile(r"^\s*(\S+?):\s+(\d+)\s*$", re.MULTILINE)


def read_by_files(folder: Path, driver: str | None) -> CardReading:
    """Return the measures of a card.

    Args:
        folder: the card's folder in sysfs.
        driver: the kernel driver that is bound to the card; None if it is unknown.
    """
    files = find_measure_files(driver).list_by_measure()
    return CardReading(**{name: _read_measure(folder, places) for name, places in files.items()})


def _read_measure(folder: Path, places: Iterable[MeasureFile]) -> float | None:
    found = (_read_place(folder, place) for place in places)
    return next((value for value in found if value is not None), None)


def _read_place(folder: Path, place: MeasureFile) -> float | None:
    paths = [path for path in sorted(folder.glob(place.file)) if _fits(path, place)]
    numbers = (_read_key(path, place.key) if place.key else read_integer(path) for path in paths)
    known = [number for number in numbers if number is not None]
    if not known:
        return None
    return place.convert(sum(known) if place.key else known[0])


def _fits(path: Path, place: MeasureFile) -> bool:
    label = path.with_name(f"{path.name.removesuffix('_input')}_label")
    conditions = ((path.with_name("name"), place.chip), (label, place.label))
    return all((read_bounded(file, _PAGE) or "").strip() == word for file, word in conditions if word)


def _read_key(path: Path, key: str) -> int | None:
    lines = _LINE.findall(read_bounded(path, _PAGE) or "")
    return next((int(number) for name, number in lines if name == key), None)
