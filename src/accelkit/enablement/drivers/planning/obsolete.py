"""Driver DaemonSets that are no longer needed, grouped by whether they still have pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from accelkit.model.object_meta import ObjectMeta


class SetMeta(ObjectMeta, rename="camel", omit_defaults=True):
    """The metadata of a DaemonSet."""

    generation: int = 0


class _Status(msgspec.Struct, rename="camel"):
    desired_number_scheduled: int | None = None
    number_misscheduled: int | None = None
    observed_generation: int = 0


class DriverSet(msgspec.Struct):
    """A driver DaemonSet, with only the fields that accelkit reads."""

    metadata: SetMeta
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def idle(self) -> bool:
        """Whether the DaemonSet does not need or have any pods; False if its status is missing or outdated."""
        current = self.status.observed_generation >= self.metadata.generation
        return current and self.status.desired_number_scheduled == 0 and self.status.number_misscheduled == 0


class Obsolete(msgspec.Struct, frozen=True):
    """DaemonSets that are not in the plan, as sorted names.

    Attributes:
        deletable: DaemonSets that do not need or have any pods.
        occupied: DaemonSets that still have pods; deleting them would remove the driver from the nodes of these pods.
    """

    deletable: tuple[str, ...]
    occupied: tuple[str, ...]


def find_obsolete(existing: Iterable[DriverSet], desired: Collection[str]) -> Obsolete:
    """Return the existing DaemonSets that are not in the plan."""
    unwanted = {each.metadata.name: each.idle for each in existing if each.metadata.name not in desired}
    return Obsolete(
        tuple(sorted(name for name, idle in unwanted.items() if idle)),
        tuple(sorted(name for name, idle in unwanted.items() if not idle)),
    )
