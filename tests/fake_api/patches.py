"""Merge patches (RFC 7386), strategic ones of conditions, and JSON patches (RFC 6902), as far as they are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class PatchError(Exception):
    """A JSON patch that does not fit the object."""


def merge(target: Any, patch: Any) -> Any:
    """Return `target` with a merge patch in it; what is null in the patch goes."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def merge_strategically(target: Any, patch: Any) -> Any:
    """Return `target` with a strategic merge patch in it: as `merge`, and conditions are merged by their types."""
    conditions = patch.get("status", {}).get("conditions")
    if conditions is None:
        return merge(target, patch)
    by_type = {each["type"]: each for each in target.get("status", {}).get("conditions") or ()}
    for each in conditions:
        by_type.pop(each["type"], None)
        if each.get("$patch") != "delete":
            by_type[each["type"]] = each
    return merge(target, patch | {"status": patch["status"] | {"conditions": list(by_type.values())}})


def apply_operations(target: dict[str, Any], operations: Sequence[Mapping[str, Any]]) -> None:
    """Change `target` by `test`, `remove`, `add` and `replace` on members of objects; of lists without `add`.

    Raises:
        PatchError: a test fails, or a member is not there.
    """
    for operation in operations:
        *folders, key = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        held: Any = target
        for folder in folders:
            held = _find(held, folder, {})
        kind = operation["op"]
        if isinstance(held, list):
            key = int(key)
        if kind in {"remove", "replace"} and _find(held, key, None) is None:
            raise PatchError(f"{operation['path']} is not there")
        if kind == "test" and _find(held, key, None) != operation["value"]:
            raise PatchError(f"the test of {operation['path']} failed")
        if kind == "remove":
            del held[key]
        elif kind in {"add", "replace"}:
            held[key] = operation["value"]
        elif kind != "test":
            raise PatchError(f"{kind} is not known here")


def _find(held: Any, key: str | int, missing: Any) -> Any:
    if isinstance(held, list):
        return held[int(key)] if int(key) < len(held) else missing
    return held.get(key, missing)
