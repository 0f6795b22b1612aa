"""Which DaemonSets of drivers nobody needs any more, and which of these may be deleted now."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from accelkit.model.object_meta import ObjectMeta


class SetMeta(ObjectMeta, rename="camel", omit_defaults=True):
    """metadata of a DaemonSet."""

    generation: int = 0


class _Status(msgspec.Struct, rename="camel"):
    desired_number_scheduled: int | None = None
    number_misscheduled: int | None = None
    observed_generation: int = 0


class DriverSet(msgspec.Struct):
    """A DaemonSet of drivers, as far as it is read."""

    metadata: SetMeta
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def idle(self) -> bool:
        """Whether it wants no pod and has none; a status that is not there, or of an older version, is unknown."""
        seen = self.status.observed_generation >= self.metadata.generation
        return seen and self.status.desired_number_scheduled == 0 and self.status.number_misscheduled == 0


class Obsolete(msgspec.Struct, frozen=True):
    """DaemonSets that no plan names; names, sorted.

    Attributes:
        deletable: those that want no pod and have none.
        occupied: those that run on nodes still, whose driver would go with them.
    """

    deletable: tuple[str, ...]
    occupied: tuple[str, ...]


def find_obsolete(existing: Iterable[DriverSet], wanted: Collection[str]) -> Obsolete:
    """Return which of the DaemonSets that are there no plan names."""
    unwanted = {each.metadata.name: each.idle for each in existing if each.metadata.name not in wanted}
    return Obsolete(
        tuple(sorted(name for name, idle in unwanted.items() if idle)),
        tuple(sorted(name for name, idle in unwanted.items() if not idle)),
    )
