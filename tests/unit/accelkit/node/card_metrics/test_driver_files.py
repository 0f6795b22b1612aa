"""What drivers show in files becomes base units; chips and channels are told apart by their names."""

import os

import pytest

from accelkit.errors import ProfileError
from accelkit.node.card_metrics.files import read_by_files
from accelkit.node.card_metrics.reading import CardReading
from accelkit.vendors.measures import parse_measures

AMD = {
    "gpu_busy_percent": "37",
    "mem_info_vram_used": "3221225472",
    "mem_info_vram_total": "206158430208",
    "hwmon/hwmon4/name": "amdgpu",
    "hwmon/hwmon4/temp1_input": "45000",
    "hwmon/hwmon4/temp1_label": "edge",
    "hwmon/hwmon4/temp2_input": "61000",
    "hwmon/hwmon4/temp2_label": "junction",
    "hwmon/hwmon4/power1_average": "412500000",
    "hwmon/hwmon4/freq1_input": "1980000000",
    "hwmon/hwmon4/freq1_label": "sclk",
    "hwmon/hwmon4/freq2_input": "1300000000",
    "hwmon/hwmon4/freq2_label": "mclk",
    "ras/umc_err_count": "ue: 1\nce: 20",
    "ras/gfx_err_count": "ue: 2\nce: 5",
}


@pytest.fixture
def card(tmp_path):
    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        return tmp_path

    return write


def test_amdgpu_files_provide_all_measures_except_energy(card):
    assert read_by_files(card(AMD), "amdgpu") == CardReading(
        utilization_ratio=0.37,
        memory_used_bytes=3 * 2**30,
        memory_total_bytes=192 * 2**30,
        temperature_celsius=45,
        power_watts=412.5,
        sm_clock_hertz=1_980_000_000,
        memory_clock_hertz=1_300_000_000,
        ecc_corrected=25,
        ecc_uncorrected=3,
    )


def test_junction_temperature_is_used_without_edge_sensor(card):
    folder = card({name: text for name, text in AMD.items() if "temp1" not in name})
    assert read_by_files(folder, "amdgpu").temperature_celsius == 61


def test_present_power_is_read_if_average_power_is_missing(card):
    power = {"hwmon/hwmon0/name": "amdgpu", "hwmon/hwmon0/power1_input": "80000000"}
    assert read_by_files(card(power), "amdgpu") == CardReading(power_watts=80)


def test_hwmon_chip_of_card_part_is_ignored(card):
    parts = {
        "hwmon/hwmon1/name": "i915_gt0",
        "hwmon/hwmon1/energy1_input": "1000000",
        "hwmon/hwmon2/name": "i915",
        "hwmon/hwmon2/energy1_input": "7500000",
        "hwmon/hwmon2/temp1_input": "52000",
        "drm/card1/gt_act_freq_mhz": "1550",
    }
    assert read_by_files(card(parts), "i915") == CardReading(
        energy_joules=7.5, temperature_celsius=52, sm_clock_hertz=1_550_000_000
    )


def test_xe_channels_are_selected_by_their_labels(card):
    channels = {
        "hwmon/hwmon1/name": "xe",
        "hwmon/hwmon1/energy1_label": "card",
        "hwmon/hwmon1/energy1_input": "9000000",
        "hwmon/hwmon1/energy2_label": "pkg",
        "hwmon/hwmon1/energy2_input": "6000000",
        "hwmon/hwmon1/temp2_label": "pkg",
        "hwmon/hwmon1/temp2_input": "48000",
        "hwmon/hwmon1/temp3_label": "vram",
        "hwmon/hwmon1/temp3_input": "70000",
        "tile0/gt0/freq0/act_freq": "2400",
    }
    assert read_by_files(card(channels), "xe") == CardReading(
        energy_joules=9, temperature_celsius=48, sm_clock_hertz=2_400_000_000
    )


@pytest.mark.parametrize("driver", ["habanalabs", None])
def test_only_standard_hwmon_files_are_read_for_other_drivers(card, driver):
    sensors = {"hwmon/hwmon3/name": "hl", "hwmon/hwmon3/temp1_input": "38000", "gpu_busy_percent": "50"}
    assert read_by_files(card(sensors), driver) == CardReading(temperature_celsius=38)


@pytest.mark.parametrize("text", ["", "n/a", "4 5"])
def test_value_that_is_not_a_number_is_unknown(card, text):
    files = {"gpu_busy_percent": text, "ras/umc_err_count": text}
    assert read_by_files(card(files), "amdgpu") == CardReading()


def test_pipe_does_not_block_reading(card):
    folder = card({"mem_info_vram_used": "7"})
    os.mkfifo(folder / "gpu_busy_percent")
    assert read_by_files(folder, "amdgpu") == CardReading(memory_used_bytes=7)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("other: {speed: []}", "unknown field"), ("amdgpu: {}", "no entry other"), ("other: {power_watts: [{}]}", "file")],
)
def test_invalid_table_of_measures_is_refused(text, problem):
    with pytest.raises(ProfileError, match=problem):
        parse_measures(text)
