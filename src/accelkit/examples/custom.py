"""Affinity, tolerations and node selectors from user-provided files.

A file contains YAML or JSON with any indentation: the value, a field with this value, or a JSON patch that adds the
value. The value is validated against the fields in the Kubernetes API, because wrong indentation often results in a
document that is well-formed, but has a different meaning.
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
    """Replacements for the affinity, tolerations and node selectors in an example. None means no replacement.

    Attributes:
        affinity: the affinity for the podTemplate of the cache and for all workloads.
        tolerations: the tolerations for the podTemplate of the cache and for all workloads.
        node_selectors: the node selectors for the first, second and third workload.
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
    """A pod spec field that a file may contain, with its type and a description of the expected value."""

    name: str
    type: Any
    expected: str


_AFFINITY: Final = _Field("affinity", _Affinity, "a mapping of nodeAffinity, podAffinity or podAntiAffinity")
_TOLERATIONS: Final = _Field(
    "tolerations", list[_Toleration], "a toleration with key, operator, value and effect, or a list of tolerations"
)
_NODE_SELECTOR: Final = _Field(
    "nodeSelector", dict[str, str], "a mapping of node labels to strings, with true, false and numbers in quotes"
)


def read_custom(
    affinity: Path | None = None,
    toleration: Path | None = None,
    node_selectors: tuple[Path | None, Path | None, Path | None] = (None,) * 3,
) -> Custom:
    """Return the values that the given files contain.

    Raises:
        ExampleError: a file cannot be read or is invalid. The message contains the path, the variable and the expected
            value.
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
        # YAML allows any indentation except tabs.
        document = load_yaml(path.read_text("utf-8-sig").expandtabs())
        value = _unwrap_value(document, field)
        msgspec.convert(value, field.type)
    except OSError as exc:
        raise ExampleError(f"cannot read {path} ({variable}): {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ExampleError(f"cannot read {path} ({variable}): {exc}") from exc
    except (YAMLError, ValueError, RecursionError) as exc:
        reason = " ".join(str(exc).split()) or type(exc).__name__
        raise ExampleError(
            f"{path} ({variable}) is not a valid {field.name} of a pod: {reason}",
            next_step=f"write {field.expected}, or a JSON patch that adds it",
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
        raise ValueError("the value is empty")
    return document
