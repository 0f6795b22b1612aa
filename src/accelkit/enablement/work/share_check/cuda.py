"""Addition of two vectors on NVIDIA cards with the driver library, without a toolkit or a vendor's image.

The kernel is written in PTX, which the driver compiles for the card. Errors contain the names that the driver defines.
"""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import numpy as np

from accelkit.enablement.work.share_check.cpu import count_elements
from accelkit.enablement.work.share_check.evidence import WorkError

LIBRARY: Final = "libcuda.so.1"
_REASON: Final = "CudaFailed"
_THREADS: Final = 256
_MOST_BYTES: Final = 48 * 2**20
_NAME_BYTES: Final = 128

PTX: Final = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry accelkit_add(
    .param .u64 accelkit_add_a, .param .u64 accelkit_add_b, .param .u64 accelkit_add_c, .param .u32 accelkit_add_n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [accelkit_add_a];
    ld.param.u64 %rd2, [accelkit_add_b];
    ld.param.u64 %rd3, [accelkit_add_c];
    ld.param.u32 %r5, [accelkit_add_n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r1, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r1, %r5;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd2;
    cvta.to.global.u64 %rd6, %rd3;
    mul.wide.u32 %rd7, %r1, 4;
    add.s64 %rd8, %rd4, %rd7;
    add.s64 %rd9, %rd5, %rd7;
    add.s64 %rd10, %rd6, %rd7;
    ld.global.f32 %f1, [%rd8];
    ld.global.f32 %f2, [%rd9];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd10], %f3;
DONE:
    ret;
}
\0"""


class Driver(Protocol):
    """NVIDIA's driver library. Each function returns 0 or an error number."""

    def __getattr__(self, name: str) -> Any: ...


def load_driver(name: str = LIBRARY) -> Driver | None:
    """Return the driver library; None if the container does not contain the library."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def add_on_cards(driver: Driver, memory_bytes: int) -> tuple[str, tuple[str, ...]]:
    """Add two vectors on each card that the driver reports; return a description, and the card identities.

    Raises:
        WorkError: a driver call failed, the driver reports no cards, or a result is wrong.
    """
    _call(driver, "cuInit", 0)
    count = ctypes.c_int()
    _call(driver, "cuDeviceGetCount", ctypes.byref(count))
    if count.value < 1:
        raise WorkError(_REASON, "NVIDIA's driver reports no cards in this container")
    done, identities = list[str](), list[str]()
    for number in range(count.value):
        device = ctypes.c_int()
        _call(driver, "cuDeviceGet", ctypes.byref(device), number)
        identities.append(_read_identity(driver, device))
        done.append(_add_on_card(driver, device, memory_bytes))
    return "; ".join(done), tuple(identities)


def _add_on_card(driver: Driver, device: ctypes.c_int, memory_bytes: int) -> str:
    name = ctypes.create_string_buffer(_NAME_BYTES)
    _call(driver, "cuDeviceGetName", name, _NAME_BYTES, device)
    count = count_elements(memory_bytes, _MOST_BYTES)
    ones = np.arange(count, dtype=np.float32) % np.float32(4096)
    twos = ones * np.float32(2)
    with _context(driver, device), _vector(driver, ones) as a, _vector(driver, twos) as b, _vector(driver, ones) as c:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        _call(driver, "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        if not np.array_equal(_read(driver, b, count), twos):
            raise WorkError("WrongResult", f"the memory of {name.value.decode(errors='replace')} has wrong content")
        _launch(driver, (a, b, c), count)
        if not np.array_equal(_read(driver, c, count), ones * np.float32(3)):
            raise WorkError("WrongResult", f"the sum on {name.value.decode(errors='replace')} is wrong")
    memory = f"{total.value / 2**30:.1f} GiB reported"
    return f"{count} numbers added on {name.value.decode(errors='replace')} with CUDA, {memory}"


def _launch(driver: Driver, vectors: tuple[ctypes.c_uint64, ...], count: int) -> None:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _call(driver, "cuModuleLoadData", ctypes.byref(module), PTX)
    try:
        _call(driver, "cuModuleGetFunction", ctypes.byref(function), module, b"accelkit_add")
        arguments = [*vectors, ctypes.c_uint32(count)]
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(each) for each in arguments))
        blocks = (count + _THREADS - 1) // _THREADS
        _call(driver, "cuLaunchKernel", function, blocks, 1, 1, _THREADS, 1, 1, 0, None, pointers, None)
        _call(driver, "cuCtxSynchronize")
    finally:
        driver.cuModuleUnload(module)


@contextmanager
def _context(driver: Driver, device: ctypes.c_int) -> Iterator[None]:
    context = ctypes.c_void_p()
    _call(driver, "cuCtxCreate_v2", ctypes.byref(context), 0, device)
    try:
        yield
    finally:
        driver.cuCtxDestroy_v2(context)


@contextmanager
def _vector(driver: Driver, content: np.ndarray[Any, np.dtype[np.float32]]) -> Iterator[ctypes.c_uint64]:
    address, size = ctypes.c_uint64(), ctypes.c_size_t(content.nbytes)
    _call(driver, "cuMemAlloc_v2", ctypes.byref(address), size)
    try:
        _call(driver, "cuMemcpyHtoD_v2", address, ctypes.c_void_p(content.ctypes.data), size)
        yield address
    finally:
        driver.cuMemFree_v2(address)


def _read(driver: Driver, address: ctypes.c_uint64, count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    found = np.empty(count, dtype=np.float32)
    _call(driver, "cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), address, ctypes.c_size_t(found.nbytes))
    return found


def _read_identity(driver: Driver, device: ctypes.c_int) -> str:
    identity = (ctypes.c_ubyte * 16)()
    _call(driver, "cuDeviceGetUuid", identity, device)
    return f"GPU-{uuid.UUID(bytes=bytes(identity))}"


def _call(driver: Driver, name: str, *arguments: object) -> None:
    try:
        function = getattr(driver, name)
    except AttributeError as exc:
        raise WorkError(_REASON, f"NVIDIA's driver library has no function {name}") from exc
    code = function(*arguments)
    if code != 0:
        raise WorkError(_REASON, f"{name} failed with {_name_error(driver, code)}")


def _name_error(driver: Driver, code: int) -> str:
    text = ctypes.c_char_p()
    try:
        known = driver.cuGetErrorName(code, ctypes.byref(text)) == 0
    except AttributeError:
        known = False
    return f"{text.value.decode(errors='replace')} ({code})" if known and text.value else f"error {code}"
