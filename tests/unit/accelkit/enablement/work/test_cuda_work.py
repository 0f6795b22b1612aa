"""The driver's library is a stand-in in Python: memory is memory, and the one kernel adds."""
# ruff: noqa: N802, ARG002, PLR0917 - functions have the driver's names and parameters

import ctypes
import itertools
import uuid

import numpy as np
import pytest

from accelkit.enablement.work.share_check.cuda import PTX, add_on_cards, load_driver
from accelkit.enablement.work.share_check.evidence import WorkError
from accelkit.enablement.work.share_check.work import check_share
from accelkit.vendors.profiles import load_profiles

IDENTITY = "GPU-12345678-1234-5678-1234-567812345678"
GIB = 2**30
SHARE = 2**22


def target(reference):
    return reference._obj


class FakeDriver:
    """As much of libcuda as is called; `broken` maps a function to the error that it returns."""

    def __init__(self, cards=1, **broken):
        self.cards, self.broken = cards, broken
        self.memory, self.contexts, self.modules = {}, set(), set()
        self.largest = 0
        self._addresses = itertools.count(4096, 4096)
        self.wrong_sum = self.forgetful = False

    def __getattribute__(self, name):
        broken = object.__getattribute__(self, "broken")
        if name in broken:
            if broken[name] is None:
                raise AttributeError(name)
            return lambda *_: broken[name]
        return object.__getattribute__(self, name)

    def cuInit(self, flags):
        return 0 if flags == 0 else 1

    def cuDeviceGetCount(self, count):
        target(count).value = self.cards
        return 0

    def cuDeviceGet(self, device, number):
        target(device).value = number
        return 0

    def cuDeviceGetName(self, name, size, device):
        name.value = b"H100"
        return 0

    def cuDeviceGetUuid(self, identity, device):
        identity[:] = uuid.UUID(IDENTITY.removeprefix("GPU-")).bytes
        return 0

    def cuCtxCreate_v2(self, context, flags, device):
        target(context).value = 77
        self.contexts.add(77)
        return 0

    def cuCtxDestroy_v2(self, context):
        self.contexts.discard(context.value)
        return 0

    def cuMemGetInfo_v2(self, free, total):
        target(free).value, target(total).value = GIB, 2 * GIB
        return 0

    def cuMemAlloc_v2(self, address, size):
        target(address).value = next(self._addresses)
        self.memory[target(address).value] = bytearray(size.value)
        self.largest = max(self.largest, sum(map(len, self.memory.values())))
        return 0

    def cuMemFree_v2(self, address):
        del self.memory[address.value]
        return 0

    def cuMemcpyHtoD_v2(self, address, source, size):
        self.memory[address.value][:] = ctypes.string_at(source.value, size.value)
        return 0

    def cuMemcpyDtoH_v2(self, place, address, size):
        content = bytes(size.value) if self.forgetful else bytes(self.memory[address.value])
        ctypes.memmove(place.value, content, size.value)
        return 0

    def cuModuleLoadData(self, module, text):
        assert text is PTX
        self.modules.add(5)
        target(module).value = 5
        return 0

    def cuModuleUnload(self, module):
        self.modules.discard(module.value)
        return 0

    def cuModuleGetFunction(self, function, module, name):
        assert name in PTX
        target(function).value = 9
        return 0

    def cuLaunchKernel(self, function, bx, by, bz, tx, ty, tz, shared, stream, arguments, extra):
        a, b, c = (ctypes.c_uint64.from_address(arguments[index]).value for index in range(3))
        count = ctypes.c_uint32.from_address(arguments[3]).value
        assert bx * tx >= count
        one, other = (np.frombuffer(self.memory[each], dtype=np.float32) for each in (a, b))
        self.memory[c][:] = (one + other + self.wrong_sum).astype(np.float32).tobytes()
        return 0

    def cuCtxSynchronize(self):
        return 0

    def cuGetErrorName(self, code, text):
        target(text).value = b"CUDA_ERROR_NO_DEVICE"
        return 0


def test_vectors_are_added_on_each_card_and_resources_are_released():
    driver = FakeDriver(cards=2)
    work, identities = add_on_cards(driver, SHARE)
    assert identities == (IDENTITY, IDENTITY)
    assert work.count("numbers added on H100 with CUDA, 2.0 GiB reported") == 2
    assert (driver.memory, driver.contexts, driver.modules) == ({}, set(), set())


@pytest.mark.parametrize("share", [2**20, 2**24])
def test_cuda_work_uses_at_most_a_quarter_of_share(share):
    driver = FakeDriver()
    add_on_cards(driver, share)
    assert 0 < driver.largest <= share // 4


@pytest.mark.parametrize(
    "name",
    [
        *("cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetUuid", "cuCtxCreate_v2"),
        *("cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuModuleLoadData"),
        *("cuModuleGetFunction", "cuLaunchKernel", "cuCtxSynchronize"),
    ],
)
def test_cuda_failure_is_reported_by_name_and_releases_resources(name):
    driver = FakeDriver(**{name: 100})
    with pytest.raises(WorkError) as refused:
        add_on_cards(driver, SHARE)
    assert refused.value.reason == "CudaFailed"
    assert refused.value.message == f"{name} failed with CUDA_ERROR_NO_DEVICE (100)"
    assert (driver.memory, driver.contexts, driver.modules) == ({}, set(), set())


def test_incomplete_driver_library_is_reported():
    with pytest.raises(WorkError, match="has no function cuCtxCreate_v2"):
        add_on_cards(FakeDriver(cuCtxCreate_v2=None), SHARE)
    with pytest.raises(WorkError, match="cuInit failed with error 3"):
        add_on_cards(FakeDriver(cuInit=3, cuGetErrorName=None), SHARE)
    with pytest.raises(WorkError, match="cuInit failed with error 3"):
        add_on_cards(FakeDriver(cuInit=3, cuGetErrorName=1), SHARE)


def test_driver_without_cards_fails():
    with pytest.raises(WorkError, match="reports no cards in this container"):
        add_on_cards(FakeDriver(cards=0), SHARE)


@pytest.mark.parametrize("fault", ["wrong_sum", "forgetful"])
def test_card_with_wrong_result_or_corrupt_memory_fails(fault):
    driver = FakeDriver()
    setattr(driver, fault, True)
    with pytest.raises(WorkError) as refused:
        add_on_cards(driver, SHARE)
    assert refused.value.reason == "WrongResult"


def test_cuda_work_runs_if_container_has_nvidia_card(tmp_path):
    (tmp_path / "nvidia0").touch()
    given = {"ACCELKIT_MEMORY_BYTES": str(GIB)}
    found = check_share(given, tmp_path, load_profiles().values(), load=FakeDriver)
    assert (found.passed, found.identities) == (True, (IDENTITY,))
    failed = check_share(given, tmp_path, load_profiles().values(), load=lambda: FakeDriver(cuInit=100))
    assert (failed.passed, failed.reason, failed.device_nodes) == (False, "CudaFailed", ("/dev/nvidia0",))


def test_missing_driver_library_returns_none():
    assert load_driver("libaccelkit-absent.so.1") is None
