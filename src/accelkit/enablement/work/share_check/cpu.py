"""Addition of two vectors on the CPU, for cards whose vendor library is missing in the container."""

from __future__ import annotations

from typing import Final

import numpy as np

from accelkit.enablement.work.share_check.evidence import WorkError

# The maximum host memory for all vectors.
_MOST_BYTES: Final = 12 * 2**20
_LEAST_COUNT: Final = 1024
_FLOAT_BYTES: Final = 4


def count_elements(memory_bytes: int, most_bytes: int = _MOST_BYTES) -> int:
    """Return the maximum number of floats per vector at which three vectors together use a quarter of a share."""
    return max(_LEAST_COUNT, min(memory_bytes // 4, most_bytes) // (3 * _FLOAT_BYTES))


def add_on_cpu(memory_bytes: int) -> str:
    """Add two vectors and check the sum; return a description.

    Raises:
        WorkError: the memory content or the sum is wrong.
    """
    count = count_elements(memory_bytes)
    # 32-bit floats represent these integers exactly.
    ones = np.arange(count, dtype=np.float32) % np.float32(4096)
    twos = ones * np.float32(2)
    if int(ones.astype(np.int64).sum()) != sum_of_numbers(count):
        raise WorkError("WrongResult", f"the memory of {count} numbers does not contain the written values")
    if not np.array_equal(ones + twos, ones * np.float32(3)):
        raise WorkError("WrongResult", f"the sum of {count} numbers on the processor is wrong")
    return f"{count} numbers added on the processor"


def sum_of_numbers(count: int) -> int:
    """Return the sum of the first `count` numbers of the repeated sequence 0…4095."""
    rounds, rest = divmod(count, 4096)
    return rounds * (4096 * 4095 // 2) + rest * (rest - 1) // 2
