"""The newest version of each object that was read: an older one never takes its place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, KeysView
from typing import Final

from accelkit.model.object_meta import ObjectIdentity, read_version

# Deleted objects that are remembered: more than an API server deletes while one answer is under way.
_MOST_GONE: Final = 10_000


class ObservedVersions:
    """The newest version of each object of a collection that was read, and which objects were deleted.

    A component reads objects from a watch, from lists, and from answers to single requests. These arrive in any order,
    so each object is taken here before it is used. Versions are compared as integers: Kubernetes declares that from
    1.35 on (KEP-5504), and versions of etcd always were. A version that is not an integer is not compared: the object
    that is read later counts.
    """

    def __init__(self) -> None:
        # None where the version is not an integer.
        self._versions: dict[str, int | None] = {}
        self._gone: dict[str, int | None] = {}

    @property
    def uids(self) -> KeysView[str]:
        """The UIDs of the objects that were read and not deleted."""
        return self._versions.keys()

    def take(self, metadata: ObjectIdentity) -> bool:
        """Note an object that was read; return False where a newer version, or its deletion, was read before."""
        uid, version = metadata.uid, read_version(metadata.resource_version)
        if uid in self._gone:
            return False
        known = self._versions.get(uid)
        if known is not None and version is not None and version < known:
            return False
        self._versions[uid] = version
        return True

    def end(self, metadata: ObjectIdentity) -> None:
        """Note that an object was deleted: what was read of it before and arrives later does not bring it back."""
        self._versions.pop(metadata.uid, None)
        self._gone[metadata.uid] = read_version(metadata.resource_version)
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def list_differences(self, listed: Iterable[ObjectIdentity], version: str) -> dict[str, str]:
        """Return the UIDs of the objects of which a complete list is newer than what was read, with their versions.

        An object that was deleted before the list was made has an empty version. Versions that are not integers are
        not compared.

        Args:
            listed: all objects of the list.
            version: the list's own version.
        """
        made = read_version(version)
        found, uids = dict[str, str](), set[str]()
        for each in listed:
            uids.add(each.uid)
            if each.uid in self._gone:
                continue
            shown, known = read_version(each.resource_version), self._versions.get(each.uid)
            if each.uid not in self._versions or (shown is not None and known is not None and known < shown):
                found[each.uid] = each.resource_version
        for uid, known in self._versions.items():
            if uid not in uids and made is not None and known is not None and known <= made:
                found[uid] = ""
        return found

    def forget_missing(self, listed: Collection[str], version: str, *, unsure: bool = False) -> list[str]:
        """Take over a complete list; return the UIDs of the objects that it lacks, and forget their versions.

        An object that was read in a newer version than the list's is kept.

        Args:
            listed: the UIDs in the list.
            version: the list's own version.
            unsure: whether the list counts where versions cannot be compared.
        """
        made = read_version(version)

        def is_older(known: int | None) -> bool:
            return unsure if made is None or known is None else known <= made

        missing = [uid for uid, known in self._versions.items() if uid not in listed and is_older(known)]
        for uid in missing:
            del self._versions[uid]
        # A list that was made after a deletion does not show the object.
        self._gone = {uid: known for uid, known in self._gone.items() if not is_older(known)}
        return missing
