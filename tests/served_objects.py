"""Strict reading of objects against what the API server of a Kubernetes version serves: kinds, fields and types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = json.loads((Path(__file__).parent / "data" / "api-types.json").read_text())
MINORS = [int(version.removeprefix("1.")) for version in DATA["releases"]]
QUANTITY = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")


def is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


OF_TYPE: dict[str, Callable[[Any], bool]] = {
    "any": lambda _: True,
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int32": lambda value: is_number(value) and -(2**31) <= value < 2**31,
    "int64": is_number,
    "float": lambda value: is_number(value) or isinstance(value, float),
    "quantity": lambda value: is_number(value) or (isinstance(value, str) and bool(QUANTITY.fullmatch(value))),
    "intOrString": lambda value: is_number(value) or isinstance(value, str),
}


def violations(document: dict[str, Any], minor: int) -> list[str]:
    """Return what the API server of a version does not know in an object."""
    kind = f"{document.get('apiVersion')} {document.get('kind')}"
    struct, served = DATA["kinds"].get(kind, ("", "0-0"))
    if not is_in(served, minor):
        return [f"{kind} is not served"]
    return _read(document, struct, minor, document["kind"])


def is_in(span: str, minor: int) -> bool:
    """Return whether a version is among `21-` or `21-24`."""
    first, _, last = span.partition("-")
    return int(first) <= minor <= int(last or minor)


def _read(value: object, kind: str, minor: int, path: str) -> list[str]:
    if kind.startswith("[]"):
        if not isinstance(value, list):
            return [f"{path}: {value!r} is no list"]
        return [each for at, item in enumerate(value) for each in _read(item, kind[2:], minor, f"{path}[{at}]")]
    if kind in OF_TYPE:
        return [] if OF_TYPE[kind](value) else [f"{path}: {value!r} is no {kind}"]
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no {kind}"]
    if kind.startswith("{}"):
        return [each for key, item in value.items() for each in _read(item, kind[2:], minor, f"{path}.{key}")]
    found = []
    for key, item in value.items():
        types = [each.split(" ") for each in DATA["structs"][kind].get(key, "any 0-0").split("|")]
        there = [of for of, span in types if is_in(span, minor)]
        found += _read(item, there[0], minor, f"{path}.{key}") if there else [f"{path}.{key} is not served"]
    return found
