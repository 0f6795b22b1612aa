"""Conversion between amounts and text with units. All other modules use integers in base units.

The base units are bytes for memory, and thousandths of a card for compute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from decimal import Context, Decimal, InvalidOperation
from typing import Final

from accelkit.errors import QuantityError

# The ledger stores amounts in 64-bit columns, and Kubernetes stores quantities as int64.
MAX_AMOUNT = 2**63 - 1
WHOLE_COMPUTE = 1000

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_FRACTION = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
_QUANTITY = re.compile(r"([+-]?[0-9.]{1,40})([EPTGMK]i|[EPTGMk]|[num]|[eE][+-]?[0-9]{1,3})?")
_SIZE = re.compile(r"([0-9.]{1,40}) ?([KMGTPE]i|[kKMGTPE]?)B?")
# These fractions of one GiB are not whole numbers of bytes. They are rounded down, so that a card with up to 1 TiB has
# exactly 10, 100 or 1000 units per GiB.
_PARTS = {Decimal("0.1"): 2**30 // 10, Decimal("0.01"): 2**30 // 100, Decimal("0.001"): 2**30 // 1000}
# The maximum number of characters of an invalid quantity in an error message. Every valid quantity is shorter.
_MAX_QUOTED = 60
# This precision covers all digits that the two patterns accept, because rounding could turn a fraction into a whole
# number.
_EXACT = Context(prec=100)


def parse_milli(text: str | int) -> int:
    """Convert a Kubernetes quantity (`"1.5"`, `"100m"`) to thousandths of its base unit.

    Raises:
        QuantityError: the text is not a quantity, or the quantity is negative, over 2^63-1, or not a whole number of
            thousandths.
    """
    return _parse(text, 1000)


def parse_quantity(text: str | int) -> int:
    """Convert a Kubernetes quantity (`8`, `"16Gi"`, `"1e3"`) to an integer in base units.

    Raises:
        QuantityError: the text is not a quantity, or the quantity is negative, over 2^63-1, or not a whole number.
    """
    return _parse(text, 1)


def _parse(text: str | int, parts: int) -> int:
    if isinstance(text, int):
        return _checked(Decimal(text) * parts, text)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text[:_MAX_QUOTED]!r} is not a Kubernetes quantity")
    number, suffix = match[1], match[2] or ""
    try:
        if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
            return _checked(Decimal(number + suffix) * parts, text)
        scale = _BINARY.get(suffix) or _DECIMAL.get(suffix) or _FRACTION[suffix]
        return _checked(_EXACT.multiply(Decimal(number), scale * parts), text)
    except InvalidOperation as exc:
        raise QuantityError(f"{text!r} is not a Kubernetes quantity") from exc


def parse_size(text: str) -> int:
    """Convert a size (`16GiB`, `0.1GB`, `512 MiB`, `1024`) to bytes. The minimum is 1.

    Raises:
        QuantityError: the text is not a valid size, or the size is not a whole number of bytes or is out of range.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise QuantityError(f"{text!r} is not a valid size", next_step="write it as 1GiB, 256MiB or 0.1GB")
    suffix = "k" if match[2] == "K" else match[2]
    try:
        size = _checked(_EXACT.multiply(Decimal(match[1]), _BINARY.get(suffix) or _DECIMAL[suffix]), text)
    except InvalidOperation as exc:
        raise QuantityError(f"{text!r} is not a valid size", next_step="write it as 1GiB, 256MiB or 0.1GB") from exc
    if size == 0:
        raise QuantityError(
            f"{text!r} is not a valid size: it must be greater than 0", next_step="write it as 1GiB, 256MiB or 0.1GB"
        )
    return size


def parse_unit(text: str) -> int:
    """Convert a unit of memory from `UNITS` to bytes. A plain number is in GiB, as in GCUShare's `memoryUnit`.

    Raises:
        QuantityError: the text is not one of `UNITS`.
    """
    written = text.strip()
    listing = ", ".join(UNITS)
    try:
        size = _parse_unit_size(f"{written}GiB" if re.fullmatch(r"[0-9.]+", written) else written)
    except QuantityError as exc:
        raise QuantityError(f"{text!r} is not a unit of memory", next_step=f"choose one of {listing}") from exc
    if size not in UNITS.values():
        raise QuantityError(f"{text!r} is not a unit of memory", next_step=f"choose one of {listing}")
    return size


def format_unit(unit_bytes: int) -> str:
    """Format a unit with its name in `UNITS`. Other sizes are formatted in the same way as amounts."""
    return next((name for name, size in UNITS.items() if size == unit_bytes), format_bytes(unit_bytes))


def format_bytes(amount: int) -> str:
    """Format bytes in the largest unit with an exact whole number (`16 GiB`), or with one decimal place (`1.5 GiB`)."""
    if amount == 0:
        return "0"
    for table in (_BINARY, _DECIMAL):
        for suffix, scale in reversed(table.items()):
            if scale > 1 and amount % scale == 0 and amount // scale < 10_000:  # noqa: PLR2004 - readable numbers
                return f"{amount // scale} {suffix}B"
    for suffix, scale in reversed(_BINARY.items()):
        if abs(amount) >= scale:
            return f"{amount / scale:.1f} {suffix}B"
    return f"{amount} B"


def _checked(value: Decimal, text: object) -> int:
    # Compare the value before the conversion, because int() for a number with a huge exponent would require too much
    # memory.
    if isinstance(text, int) and abs(text) > MAX_AMOUNT:
        raise QuantityError(f"a number of {text.bit_length()} bits is out of range (at most {MAX_AMOUNT})")
    if not value.is_finite() or abs(value) > MAX_AMOUNT:
        raise QuantityError(f"{text!r} is out of range (at most {MAX_AMOUNT})")
    if value < 0:
        raise QuantityError(f"{text!r} is negative")
    if value != value.to_integral_value():
        raise QuantityError(f"{text!r} is not a whole number")
    return int(value)


def _parse_unit_size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is not None and match[2] == "Gi":
        with suppress(InvalidOperation, KeyError):
            return _PARTS[Decimal(match[1])]
    return parse_size(text)


# The supported sizes of a unit of memory, largest first. Other spellings of these sizes (100MB for 0.1GB) are accepted.
UNITS: Final[Mapping[str, int]] = {
    name: _parse_unit_size(name)
    for name in (
        *("1GiB", "1GB", "512MiB", "256MiB", "128MiB", "0.1GiB", "0.1GB", "64MiB", "32MiB", "16MiB", "0.01GiB"),
        *("0.01GB", "8MiB", "4MiB", "2MiB", "0.001GiB", "1MiB", "0.001GB"),
    )
}
