"""Affinity, tolerations and node selectors of the reader's own, read from files.

Such a file is a piece of YAML (or JSON, which is YAML) at any indentation: the value itself, the value under its
field's name, or a JSON patch whose operations put it where it belongs. It is read as data and checked against the
fields Kubernetes has, since wrong spacing tends to make another, well-formed document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from ruamel.yaml.error import YAMLError

from accelkit.errors import ExampleError
from accelkit.examples.json_patch import apply_patch, is_patch
from accelkit.yaml import load_yaml


@dataclass(frozen=True)
class Custom:
    """What replaces the affinity, tolerations and node selectors of an example; None leaves the example's own.

    Attributes:
        affinity: of the cache's podTemplate and of all workloads.
        tolerations: of the same.
        node_selectors: of the first, second and third workload.
    """

    affinity: Mapping[str, Any] | None = None
    tolerations: Sequence[Mapping[str, Any]] | None = None
    node_selectors: tuple[Mapping[str, str] | None, Mapping[str, str] | None, Mapping[str, str] | None] = (None,) * 3


NO_CUSTOM: Final = Custom()


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Expression(_Strict):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = []


class _Term(_Strict, rename="camel"):
    match_expressions: list[_Expression] = []
    match_fields: list[_Expression] = []


class _Terms(_Strict, rename="camel"):
    node_selector_terms: list[_Term]


class _Preference(_Strict):
    weight: int
    preference: _Term


class _NodeAffinity(_Strict, rename="camel"):
    required_during_scheduling_ignored_during_execution: _Terms | None = None
    preferred_during_scheduling_ignored_during_execution: list[_Preference] = []


class _PodAffinity(_Strict, rename="camel"):
    required_during_scheduling_ignored_during_execution: list[dict[str, Any]] = []
    preferred_during_scheduling_ignored_during_execution: list[dict[str, Any]] = []


class _Affinity(_Strict, rename="camel"):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _Toleration(_Strict, rename="camel"):
    key: str | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


@dataclass(frozen=True)
class _Field:
    """A field of a pod's spec that a file may give: its name, its type, and what to write, for the person."""

    name: str
    type: Any
    expected: str


_AFFINITY: Final = _Field("affinity", _Affinity, "a mapping of nodeAffinity, podAffinity or podAntiAffinity")
_TOLERATIONS: Final = _Field(
    "tolerations", list[_Toleration], "one toleration, of key, operator, value, effect, or a list of them"
)
_NODE_SELECTOR: Final = _Field(
    "nodeSelector", dict[str, str], "a mapping of node labels to text, with true, false and numbers in quotes"
)


def read_custom(
    affinity: Path | None = None,
    toleration: Path | None = None,
    node_selectors: tuple[Path | None, Path | None, Path | None] = (None,) * 3,
) -> Custom:
    """Read the files that are given.

    Raises:
        ExampleError: a file cannot be read or is not what it should be; names file, variable and what is expected.
    """
    first, second, third = (
        _read(path, f"CUSTOM_NODE_SELECTOR_{number}", _NODE_SELECTOR)
        for number, path in enumerate(node_selectors, start=1)
    )
    return Custom(
        _read(affinity, "CUSTOM_AFFINITY", _AFFINITY),
        _read(toleration, "CUSTOM_TOLERATION", _TOLERATIONS),
        (first, second, third),
    )


def _read(path: Path | None, variable: str, field: _Field) -> Any:
    if path is None:
        return None
    try:
        # YAML takes any indentation, but no tab in it.
        document = load_yaml(path.read_text("utf-8-sig").expandtabs())
        value = _unwrap_value(document, field)
        msgspec.convert(value, field.type)
    except OSError as exc:
        raise ExampleError(f"{path}, given as {variable}, cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ExampleError(f"{path}, given as {variable}, cannot be read: {exc}") from exc
    except (YAMLError, ValueError, RecursionError) as exc:
        reason = " ".join(str(exc).split()) or type(exc).__name__
        raise ExampleError(
            f"{path}, given as {variable}, cannot be a pod's {field.name}: {reason}",
            next_step=f"expected is {field.expected}, or a JSON patch that adds it",
        ) from exc
    return value


def _unwrap_value(document: Any, field: _Field) -> Any:
    if is_patch(document):
        document = apply_patch(document, field.name)
    elif isinstance(document, dict) and [*document] == [field.name]:
        document = document[field.name]
    if field is _TOLERATIONS and isinstance(document, dict):
        document = [document]
    if not document:
        raise ValueError("it is empty")
    return document
