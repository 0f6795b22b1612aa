"""What NVIDIA's library says becomes base units, and what it does not say stays unknown."""

from __future__ import annotations

from types import SimpleNamespace

from accelkit.node.card_metrics.nvml import read_by_nvml
from accelkit.node.card_metrics.reading import CardReading

BDF = "0000:3b:00.0"


class FakeNvml:
    """The module pynvml over one card; a function without an answer raises as the library does."""

    NVML_TEMPERATURE_GPU, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_AGGREGATE_ECC, nvmlMemory_v2 = 0, 1, 2, 1, 33554472  # noqa: N815 - the library's
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1

    class NVMLError(Exception):
        pass

    def __init__(self, answers, *, works=True):
        self.answers, self.works, self.open = answers, works, 0

    def nvmlInit(self):  # noqa: N802 - the library's name
        if not self.works:
            raise self.NVMLError
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802 - the library's name
        self.open -= 1

    def __getattr__(self, name):
        if not name.startswith("nvmlDevice"):
            raise AttributeError(name)

        def call(*arguments):
            found = self.answers.get((name, *arguments[1:]), self.answers.get(name))
            if found is None or (name == "nvmlDeviceGetHandleByPciBusId" and arguments != (BDF,)):
                raise self.NVMLError
            return found

        return call


WHOLE = {
    "nvmlDeviceGetHandleByPciBusId": object(),
    ("nvmlDeviceGetMemoryInfo", FakeNvml.nvmlMemory_v2): SimpleNamespace(total=80 * 2**30, used=3 * 2**30),
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=37, memory=12),
    ("nvmlDeviceGetTemperature", 0): 61,
    "nvmlDeviceGetPowerUsage": 412_500,
    "nvmlDeviceGetTotalEnergyConsumption": 9_000_500,
    ("nvmlDeviceGetClockInfo", 1): 1980,
    ("nvmlDeviceGetClockInfo", 2): 2619,
    ("nvmlDeviceGetTotalEccErrors", 0, 1): 7,
    ("nvmlDeviceGetTotalEccErrors", 1, 1): 0,
}


def test_all_measures_are_in_base_units_and_the_library_is_closed_again():
    nvml = FakeNvml(WHOLE)
    assert read_by_nvml(nvml, BDF) == CardReading(
        utilization_ratio=0.37,
        memory_used_bytes=3 * 2**30,
        memory_total_bytes=80 * 2**30,
        temperature_celsius=61,
        power_watts=412.5,
        energy_joules=9000.5,
        sm_clock_hertz=1_980_000_000,
        memory_clock_hertz=2_619_000_000,
        ecc_corrected=7,
        ecc_uncorrected=0,
    )
    assert nvml.open == 0


def test_what_a_card_does_not_know_is_unknown_and_not_zero():
    answers = {"nvmlDeviceGetHandleByPciBusId": object(), "nvmlDeviceGetPowerUsage": 30_000}
    assert read_by_nvml(FakeNvml(answers), BDF) == CardReading(power_watts=30)


def test_older_drivers_know_the_first_version_of_memory_only():
    answers = {k: v for k, v in WHOLE.items() if k != ("nvmlDeviceGetMemoryInfo", FakeNvml.nvmlMemory_v2)}
    answers["nvmlDeviceGetMemoryInfo",] = SimpleNamespace(total=16, used=4)
    found = read_by_nvml(FakeNvml(answers), BDF)
    assert (found.memory_total_bytes, found.memory_used_bytes) == (16, 4)


def test_without_the_driver_or_the_card_nothing_is_known():
    assert read_by_nvml(FakeNvml(WHOLE, works=False), BDF) == CardReading()
    assert read_by_nvml(FakeNvml(WHOLE), "0000:af:00.0") == CardReading()
