"""The measures through pynvml and the library's C interface, as an agent reads them."""

import pynvml
import pytest
from standin_nvml import StandinCard

from accelkit.model.card import Card
from accelkit.node.card_metrics.reading import CardReading
from accelkit.node.card_metrics.watch import CardWatch, read_card
from accelkit.node.discovery import FoundCard
from accelkit.node.discovery.nvml import load_nvml
from accelkit.vendors.profiles import load_profiles

GIB = 2**30
ONE, OTHER = "0000:3b:00.0", "0000:af:00.0"


@pytest.fixture
def host(standin_nvml):
    standin_nvml.cards = [StandinCard(ONE, "GPU-1", used=3 * GIB), StandinCard(OTHER, "GPU-2", minor=1)]
    standin_nvml.measures = [
        (ONE, "busy", 37),
        (ONE, "temperature", 61),
        (ONE, "power", 412_500),
        (ONE, "energy", 2**33),
        (ONE, "clock-sm", 1980),
        (ONE, "clock-memory", 2619),
        (ONE, "ecc-corrected", 7),
        (ONE, "ecc-uncorrected", 0),
    ]
    standin_nvml.write()
    return standin_nvml


def read(bdf):
    card = Card(f"GPU-{bdf}", "nvidia", "m", GIB, bdf=bdf)
    return FoundCard(card, 0, 0, load_profiles()["nvidia"], driver="nvidia")


def test_nvml_measures_are_in_base_units_and_library_is_shut_down(host, monkeypatch):
    shut_down, closed = pynvml.nvmlShutdown, []
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: closed.append(1) or shut_down())
    assert read_card(read(ONE), load_nvml) == CardReading(
        utilization_ratio=0.37,
        memory_used_bytes=3 * GIB,
        memory_total_bytes=141 * GIB,
        temperature_celsius=61,
        power_watts=412.5,
        energy_joules=2**33 / 1000,
        sm_clock_hertz=1.98e9,
        memory_clock_hertz=2.619e9,
        ecc_corrected=7,
        ecc_uncorrected=0,
    )
    assert closed == [1]
    # Of the other card only its memory is known, and what is not known is not zero.
    assert read_card(read(OTHER), load_nvml) == CardReading(memory_used_bytes=0, memory_total_bytes=141 * GIB)


def test_lost_card_has_no_measures(host):
    host.cards = host.cards[1:]
    host.write()
    assert read_card(read(ONE), load_nvml) == CardReading()


@pytest.mark.parametrize(
    ("function", "number", "expected"),
    [
        ("nvmlInitWithFlags", pynvml.NVML_ERROR_DRIVER_NOT_LOADED, CardReading()),
        # Older drivers know the first version of memory only.
        (
            "nvmlDeviceGetMemoryInfo_v2",
            pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            CardReading(memory_used_bytes=GIB, memory_total_bytes=141 * GIB),
        ),
    ],
)
def test_measures_that_nvml_cannot_return_are_unknown(host, function, number, expected):
    host.failures[function] = number
    host.write()
    assert read_card(read(OTHER), load_nvml) == expected


def test_hanging_driver_does_not_block_card_watch(host):
    host.delays = {"nvmlDeviceGetTemperature": 500}
    host.write()
    watch = CardWatch(lambda found: read_card(found, load_nvml))
    watch.start_reads([read(ONE)])
    assert watch.list_current() == {}
    (thread,) = watch._threads.values()
    assert thread.is_alive()
    host.delays = {}
    host.write()
    thread.join(60)
    assert watch.list_current()[f"GPU-{ONE}"].temperature_celsius == 61
