"""What follows from the version of a card's driver."""

from __future__ import annotations

import pytest

from accelkit.kernelcache.compatibility.ptx import can_load_ptx, find_driver_cuda, is_newer_than_table, parse_version


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("535.161.08", (12, 2)),
        ("550.54.14", (12, 4)),
        ("552.0", (12, 4)),
        ("999.1", (13, 1)),
        ("390.157", None),
        (None, None),
        ("unknown", None),
    ],
)
def test_driver_version_maps_to_cuda_version(driver, cuda) -> None:
    assert find_driver_cuda(driver) == cuda


@pytest.mark.parametrize(
    ("driver", "newer"), [("590.99", False), ("591.1", True), ("999", True), (None, False), ("unknown", False)]
)
def test_driver_newer_than_the_table_is_detected(driver, newer) -> None:
    assert is_newer_than_table(driver) is newer


@pytest.mark.parametrize(
    ("ptx_version", "cuda", "loads"),
    [
        (85, (12, 5), True),
        (85, (12, 6), True),
        (86, (12, 6), False),
        (70, (13, 0), True),
        (91, (13, 0), False),
        (91, (13, 5), True),
        (92, (13, 5), None),
        (63, (9, 2), None),
    ],
)
def test_driver_loads_ptx_up_to_its_cuda_version(ptx_version: int, cuda: tuple[int, int], loads) -> None:
    assert can_load_ptx(ptx_version, cuda) is loads


@pytest.mark.parametrize(
    ("text", "version"), [("12.9", (12, 9)), ("12", (12, 0)), ("12.9.1", (12, 9)), ("v12", None), ("", None)]
)
def test_version_is_parsed_as_major_and_minor(text: str, version) -> None:
    assert parse_version(text) == version
