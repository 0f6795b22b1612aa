"""Fields that are common to all object kinds: owners and conditions."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from accelkit.model.object_meta import ObjectMeta


class PartialObject(msgspec.Struct):
    """An object with only its metadata."""

    metadata: ObjectMeta


class Owner(msgspec.Struct):
    """A reference to an owner of an object."""

    kind: str = ""
    controller: bool = False


class OwnedMeta(ObjectMeta, rename="camel"):
    """The `metadata` of an object, with its owners."""

    owner_references: list[Owner] | None = None

    def list_controllers(self) -> set[str]:
        """Return the kinds of the owners that control the object (with `controller: true`)."""
        return {owner.kind for owner in self.owner_references or () if owner.controller}


class Condition(msgspec.Struct, frozen=True):
    """A condition, without its reason and message."""

    type: str
    status: str = ""


class ExplainedCondition(Condition, frozen=True):
    """A condition with its reason and message."""

    reason: str = ""
    message: str = ""


def is_true(conditions: Iterable[Condition] | None, kind: str) -> bool:
    """Return whether a condition of this type is True."""
    return any(each.type == kind and each.status == "True" for each in conditions or ())
