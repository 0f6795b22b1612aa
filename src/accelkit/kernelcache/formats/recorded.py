"""Variables that vLLM recorded during compilation.

If the value of a variable differs in a workload, vLLM uses a different hash and does not find the cache.

vLLM does not report such a cache miss, so accelkit must issue a warning before the pod starts. vLLM records only the
variables that are part of the hash. The path of the model is also part of the hash, but vLLM does not record it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import label_names as names
from accelkit.kernelcache.formats.entries import VllmEntry
from accelkit.kernelcache.formats.environment import REDACTED, redact

MAX_VARIABLES: Final = 512
MAX_FACTORS_BYTES: Final = 1 << 20
_PREFIX: Final = "VLLM_"
# vLLM does not include this variable in the hash.
_IGNORED: Final = frozenset({"VLLM_CACHE_ROOT"})
# Kubernetes replaces such a reference with the value of another variable, which may come from another object.
_REFERENCE: Final = "$("
# The limit on the total size of the names and values of the variables that a node reports. vLLM has about a hundred
# variables.
MAX_REPORTED_BYTES: Final = 16 << 10
_MAX_REPORTED_VALUE: Final = 256
_MAX_FILES: Final = 256
_NAME: Final = re.compile(r"VLLM_[A-Z0-9_]{1,120}", re.ASCII)
_SAME: Final = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0", "none": "", "null": ""}

Value = bool | int | float | str | None


class _Factors(msgspec.Struct, frozen=True):
    env: dict[str, Any] = {}


_variables = msgspec.json.Decoder(dict[str, Value])
_factors = msgspec.json.Decoder(_Factors)


def collect_variables(entries: Iterable[object]) -> dict[str, Value]:
    """Return the variables with the same value in all compiled artifacts of a cache, without redacted values."""
    return _agree(piece.env for entry in entries if isinstance(entry, VllmEntry) for piece in entry.binary)


def read_label(labels: Mapping[str, str]) -> dict[str, Value]:
    """Return the variables in the image's label; empty if the label is missing.

    Raises:
        CacheError: the label is invalid.
    """
    text = labels.get(names.VARIABLES, "")
    if not text:
        return {}
    try:
        read = _variables.decode(text)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise CacheError(f"the label {names.VARIABLES} is not an object of variables: {exc}") from exc
    invalid = next((name for name in read if not _NAME.fullmatch(name)), None)
    if invalid is not None or len(read) > MAX_VARIABLES:
        raise CacheError(
            f"the label {names.VARIABLES} has more than {MAX_VARIABLES} variables, "
            f"or an invalid name: {str(invalid)[:80]!r}"
        )
    return read


def read_variables(cache: Path) -> dict[str, Value]:
    """Return the variables from the files of an extracted cache, because images from other tools do not have the label.

    Files that cannot be read are ignored.
    """
    paths = sorted(cache.glob("torch_compile_cache/*/rank_*/*/cache_key_factors.json"))
    return _agree(env for path in paths[:_MAX_FILES] if (env := _read_factors(path)) is not None)


def write_texts(variables: Mapping[str, Value]) -> dict[str, str]:
    """Return the variables as strings, as in an environment; an unset variable has an empty value."""
    return {name: _write(value) for name, value in variables.items()}


def select_comparable(variables: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables that may be part of vLLM's hash and that a container sets to a literal value.

    Args:
        variables: the variables of the container; the value is None if it is defined in another object.
    """
    return {
        name: value
        for name, value in variables.items()
        if value is not None and is_counted(name) and _REFERENCE not in value
    }


def is_counted(name: str) -> bool:
    """Return whether a variable may be part of vLLM's hash."""
    return name.startswith(_PREFIX) and name not in _IGNORED


def list_differing(recorded: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """Return the names of a container's variables whose values are known to differ from the recorded values."""
    return [name for name, value in own.items() if _differs(recorded.get(name), value)]


def _differs(recorded: str | None, value: str) -> bool:
    return recorded is not None and recorded != REDACTED and not agrees(recorded, value)


def bound_texts(variables: Mapping[str, str], most_bytes: int = MAX_REPORTED_BYTES) -> dict[str, str]:
    """Return the variables that do not exceed the limits of a node report, sorted by name, without redacted values."""
    kept: dict[str, str] = {}
    room = most_bytes
    for name, value in sorted(variables.items()):
        size = len(name) + len(value.encode())
        if _NAME.fullmatch(name) and value != REDACTED and len(value) <= _MAX_REPORTED_VALUE and size <= room:
            kept[name] = value
            room -= size
    return dict(list(kept.items())[:MAX_VARIABLES])


def agrees(recorded: str, value: str) -> bool:
    """Return whether a value is equivalent to the recorded value; for example, `True`, `on` and `1` are equivalent."""
    return _normalize(recorded) == _normalize(value)


def _read_factors(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FACTORS_BYTES + 1)
        return redact(_factors.decode(content).env) if len(content) <= MAX_FACTORS_BYTES else None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _agree(environments: Iterable[Mapping[str, Any]]) -> dict[str, Value]:
    agreed: dict[str, Value] | None = None
    for env in environments:
        known = {
            name: value
            for name, value in env.items()
            if _NAME.fullmatch(name) and isinstance(value, Value) and value != REDACTED
        }
        if agreed is None:
            agreed = known
        agreed = {name: value for name, value in agreed.items() if name in known and _is_same(known[name], value)}
    return dict(sorted((agreed or {}).items())[:MAX_VARIABLES])


def _is_same(one: Value, other: Value) -> bool:
    return agrees(_write(one), _write(other))


def _write(value: Value) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _normalize(text: str) -> str:
    lowered = text.strip().lower()
    return _SAME.get(lowered, lowered)
