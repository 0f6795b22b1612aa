"""Parts that objects of all kinds have: owners and conditions."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from accelkit.model.object_meta import ObjectMeta


class PartialObject(msgspec.Struct):
    """An object of which only the metadata is read."""

    metadata: ObjectMeta


class Owner(msgspec.Struct):
    """A reference to an owner."""

    kind: str = ""
    controller: bool = False


class OwnedMeta(ObjectMeta, rename="camel"):
    """metadata with the owners."""

    owner_references: list[Owner] | None = None

    def list_controllers(self) -> set[str]:
        """Return the kinds of the owners that act on the object; those without `controller: true` do not."""
        return {owner.kind for owner in self.owner_references or () if owner.controller}


class Condition(msgspec.Struct, frozen=True):
    """A condition, without its explanation."""

    type: str
    status: str = ""


class ExplainedCondition(Condition, frozen=True):
    """A condition with its reason and message."""

    reason: str = ""
    message: str = ""


def is_true(conditions: Iterable[Condition] | None, kind: str) -> bool:
    """Return whether a condition of this type is True."""
    return any(each.type == kind and each.status == "True" for each in conditions or ())
