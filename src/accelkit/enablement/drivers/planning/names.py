"""Names of what is there once per kernel: DaemonSets and Jobs."""

from __future__ import annotations

import hashlib
import re
from typing import Final

# Names of pods are made of the name of their DaemonSet, of which 58 characters are kept.
MAX_NAME: Final = 57
_DIGEST: Final = 8
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.]+")
# Kernels have underscores as a rule (el9_4), and a dash in their place is no other kernel in practice.
_EXPECTED: Final = re.compile(r"^[a-z0-9._-]*$")


def build_name(prefix: str, vendor: str, kernel: str, *, distinct: bool = False) -> str:
    """Return the name of a vendor's DaemonSet for a kernel, at most `MAX_NAME` characters.

    It ends in a part of a hash where characters were cut or could not be kept, so that no two kernels share a name.

    Args:
        prefix: with which it begins.
        vendor: of the cards.
        kernel: its release.
        distinct: whether another kernel would have the same name, so that the hash is needed in any case.
    """
    name = _NOT_IN_NAMES.sub("-", f"{prefix}-{vendor}-{kernel}".lower()).strip("-.")
    name = re.sub(r"-*\.-*", ".", name)
    if len(name) <= MAX_NAME and _EXPECTED.fullmatch(f"{vendor}{kernel}") and not distinct:
        return name
    kept = name[: MAX_NAME - _DIGEST - 1].rstrip("-.")
    return f"{kept}-{_hash(f'{vendor} {kernel}')}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
