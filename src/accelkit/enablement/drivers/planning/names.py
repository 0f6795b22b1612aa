"""Names of DaemonSets and Jobs, which exist once per kernel."""

from __future__ import annotations

import hashlib
import re
from typing import Final

# Pod names begin with the first 58 characters of the DaemonSet's name.
MAX_NAME: Final = 57
_DIGEST: Final = 8
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.]+")
# Kernel releases often contain underscores (el9_4). In practice, no two releases differ only in this character.
_EXPECTED: Final = re.compile(r"^[a-z0-9._-]*$")


def build_name(prefix: str, vendor: str, kernel: str, *, distinct: bool = False) -> str:
    """Return the name of a vendor's DaemonSet for a kernel, with at most `MAX_NAME` characters.

    The name ends with the start of a hash if characters were removed or replaced, so that the names for different
    kernels do not collide.

    Args:
        prefix: the prefix of the name.
        vendor: the vendor of the cards.
        kernel: the release of the kernel.
        distinct: whether the hash is required because another kernel would result in the same name.
    """
    name = _NOT_IN_NAMES.sub("-", f"{prefix}-{vendor}-{kernel}".lower()).strip("-.")
    name = re.sub(r"-*\.-*", ".", name)
    if len(name) <= MAX_NAME and _EXPECTED.fullmatch(f"{vendor}{kernel}") and not distinct:
        return name
    kept = name[: MAX_NAME - _DIGEST - 1].rstrip("-.")
    return f"{kept}-{_hash(f'{vendor} {kernel}')}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
