"""Strict reading of configuration files against the types of a kube-scheduler, as its own decoder does it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DATA = json.loads((Path(__file__).parents[3] / "data" / "scheduler-types.json").read_text())
DURATION = re.compile(r"(?:0|-?(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+)")
GROUP = "kubescheduler.config.k8s.io/"


def read_formats(minor: int) -> set[str]:
    """Return the formats whose types a release has."""
    return set(DATA["releases"][f"1.{minor}"]["formats"])


def types_of(minor: int, form: str) -> tuple[str, dict[str, Any]]:
    """Return the module that the types are from, and the types."""
    release = DATA["releases"][f"1.{minor}"]
    return release["module"], DATA["types"][release["formats"][form]]


def format_of(document: dict[str, Any]) -> str:
    """Return the format that a document claims to be of."""
    if document["kind"] == "Policy":
        assert document["apiVersion"] == "v1"
        return "Policy"
    assert document["kind"] == "KubeSchedulerConfiguration"
    assert document["apiVersion"].startswith(GROUP)
    return str(document["apiVersion"]).removeprefix(GROUP)


def violations(document: dict[str, Any], minor: int) -> list[str]:
    """Return what a kube-scheduler of that version would refuse in a document."""
    _, types = types_of(minor, format_of(document))
    return _struct(document, types["root"], types["structs"], "")


def _struct(value: object, name: str, structs: dict[str, Any], path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no {name}"]
    found = []
    for key, each in value.items():
        if key not in structs[name]:
            found.append(f"{path}.{key}: {name} has no such field")
        else:
            found += _value(each, structs[name][key], structs, f"{path}.{key}")
    return found


def _value(value: object, kind: str, structs: dict[str, Any], path: str) -> list[str]:
    if kind == "any":
        return []
    if kind.startswith("[]"):
        if not isinstance(value, list):
            return [f"{path}: {value!r} is no list"]
        return [each for i, item in enumerate(value) for each in _value(item, kind[2:], structs, f"{path}[{i}]")]
    if kind in structs:
        return _struct(value, kind, structs, path)
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    right = {
        "string": isinstance(value, str),
        "bytes": isinstance(value, str),
        "bool": isinstance(value, bool),
        "int32": number is not None and -(2**31) <= number < 2**31,
        "int64": number is not None,
        "float": number is not None or isinstance(value, float),
        "duration": isinstance(value, str) and bool(DURATION.fullmatch(value)),
    }[kind]
    return [] if right else [f"{path}: {value!r} is no {kind}"]
