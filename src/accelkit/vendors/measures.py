"""Table of the files that kernel drivers use to publish measures of their cards, such as temperature and power."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from accelkit.decoding import prepare
from accelkit.errors import ProfileError
from accelkit.yaml import load_yaml

# The key of the entry for all other drivers, which use the kernel's common sensor interface.
_OTHER: Final = "other"


class MeasureFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that may contain a measure. `measures.yaml` describes each field.

    Attributes:
        file: a file name pattern, relative to the card's folder.
        multiply: the factor that, together with `divide`, converts the file's unit to the base unit.
    """

    file: str
    chip: str = ""
    label: str = ""
    key: str = ""
    multiply: int = 1
    divide: int = 1

    def convert(self, number: int) -> float:
        """Convert the number from the file to the base unit."""
        return number * self.multiply / self.divide


class MeasureFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a driver for each measure, in reading order. The field names contain the base units."""

    utilization_ratio: tuple[MeasureFile, ...] = ()
    memory_used_bytes: tuple[MeasureFile, ...] = ()
    memory_total_bytes: tuple[MeasureFile, ...] = ()
    temperature_celsius: tuple[MeasureFile, ...] = ()
    power_watts: tuple[MeasureFile, ...] = ()
    energy_joules: tuple[MeasureFile, ...] = ()
    sm_clock_hertz: tuple[MeasureFile, ...] = ()
    memory_clock_hertz: tuple[MeasureFile, ...] = ()
    ecc_corrected: tuple[MeasureFile, ...] = ()
    ecc_uncorrected: tuple[MeasureFile, ...] = ()

    def list_by_measure(self) -> Mapping[str, tuple[MeasureFile, ...]]:
        """Return the files by the name of the measure."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


prepare(MeasureFiles)


def find_measure_files(driver: str | None) -> MeasureFiles:
    """Return the files of a kernel driver. For an unknown driver, return the files that any driver may have."""
    found = _load()
    return found.get(driver or _OTHER, found[_OTHER])


def parse_measures(text: str) -> Mapping[str, MeasureFiles]:
    """Read the table of measures from YAML.

    Raises:
        ProfileError: the table is invalid.
    """
    try:
        found = msgspec.convert(load_yaml(text), dict[str, MeasureFiles])
    except msgspec.ValidationError as exc:
        raise ProfileError(f"the table of measures is invalid: {exc}") from exc
    if _OTHER not in found:
        raise ProfileError(f"the table of measures is invalid: it has no entry {_OTHER}")
    return found


@cache
def _load() -> Mapping[str, MeasureFiles]:
    return parse_measures((resources.files("accelkit.vendors") / "data" / "measures.yaml").read_text())
