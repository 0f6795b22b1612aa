"""JSON patches (RFC 6902) for a field of a pod spec, regardless of the kind of the patched object."""

from __future__ import annotations

from typing import Any


def is_patch(document: Any) -> bool:
    """Return whether a document is a list of JSON patch operations."""
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(item, dict) and {"op", "path"} <= item.keys() for item in document)
    )


def apply_patch(operations: list[dict[str, Any]], field: str) -> Any:
    """Return the value of the field after these operations. The operations must not change other fields.

    The path may refer to the field in any object, such as `/spec/affinity` or `/spec/template/spec/affinity`. Paths
    such as `…/tolerations/-` or `…/nodeSelector/<label>` add a single value to the field.

    Raises:
        ValueError: an operation does not add a value to the field. The message contains this operation.
    """
    value: Any = None
    for operation in operations:
        op, path = operation["op"], str(operation["path"])
        if op not in {"add", "replace"} or "value" not in operation:
            raise ValueError(f"the operation {op!r} of {path} does not add a value")
        segments = [segment.replace("~1", "/").replace("~0", "~") for segment in path.split("/")[1:]]
        match segments[segments.index(field) + 1 :] if field in segments else None:
            case []:
                value = operation["value"]
            case ["-"] if isinstance(value, list):
                value = [*value, operation["value"]]
            case ["-"] | ["0"] if value is None:
                value = [operation["value"]]
            case [key] if value is None or isinstance(value, dict):
                value = {**(value or {}), key: operation["value"]}
            case _:
                raise ValueError(f"the path {path} does not point to {field}")
    return value
