"""What a path of the API server names, and which objects a selector takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True)
class Place:
    """The parts of a path.

    Attributes:
        root: of the API's group and version, as `/apis/apps/v1`.
        namespace: empty for all namespaces, and for the cluster's own objects.
        name: empty for a collection.
        subresource: as `status`; empty for the object itself.
    """

    root: str
    namespace: str
    plural: str
    name: str
    subresource: str

    @property
    def object_path(self) -> str:
        """The path of the object, without its subresource."""
        return "/".join(part for part in (self.collection_path, self.name) if part)

    @property
    def collection_path(self) -> str:
        """The path of the collection that the object is in."""
        return f"{self.root}{f'/namespaces/{self.namespace}' if self.namespace else ''}/{self.plural}"

    def holds(self, other: Place) -> bool:
        """Return whether an object belongs to this collection."""
        return (self.root, self.plural) == (other.root, other.plural) and self.namespace in {"", other.namespace}


def place(path: str) -> Place:
    """Take a path apart."""
    parts = [unquote(part) for part in path.split("/")[1:]]
    at = 2 if parts[0] == "api" else 3
    root, rest = "/" + "/".join(parts[:at]), parts[at:]
    namespace = ""
    # A Namespace is an object of the cluster itself.
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", "", ""][:3]
    return Place(root, namespace, plural, name, subresource)


def selected(item: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    """Return whether an object fits a query's selectors: equality, presence, and of fields inequality."""
    labels = item.get("metadata", {}).get("labels") or {}
    for requirement in filter(None, query.get("labelSelector", "").split(",")):
        key, equals, value = requirement.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    for requirement in filter(None, query.get("fieldSelector", "").split(",")):
        key, _, value = requirement.partition("=")
        held: Any = item
        for part in key.removesuffix("!").split("."):
            held = held.get(part) or {}
        if ((held or "") == value) is key.endswith("!"):
            return False
    return True
