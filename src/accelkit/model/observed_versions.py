"""The newest known version of each object, so that an older version never replaces a newer version."""

from __future__ import annotations

from collections.abc import Collection, Iterable, KeysView
from typing import Final

from accelkit.model.object_meta import ObjectIdentity, read_version

# The maximum number of deleted objects to store. It exceeds the number that are deleted while the API server sends a
# response.
_MAX_DELETED: Final = 10_000


class ObservedVersions:
    """The newest known version of each object in a collection, and the deleted objects.

    A component reads objects from a watch, from lists, and from responses to single requests. The objects may arrive in
    any order, so the component calls `take` for each object before it uses the object.

    Versions are compared as integers. Kubernetes guarantees that this is valid as of version 1.35 (KEP-5504), and
    versions from etcd have always been integers. If a version is not an integer, it is not compared, and the object
    that arrives later is used.
    """

    def __init__(self) -> None:
        # The known version of each object, by UID; None if the version is not an integer.
        self._versions: dict[str, int | None] = {}
        self._deleted: dict[str, int | None] = {}

    @property
    def uids(self) -> KeysView[str]:
        """The UIDs of the objects that were read and have not been deleted."""
        return self._versions.keys()

    def is_older(self, metadata: ObjectIdentity) -> bool:
        """Return whether a newer version of an object, or its deletion, is already recorded."""
        return self._is_older(metadata.uid, read_version(metadata.resource_version))

    def is_newer(self, uid: str, version: str) -> bool:
        """Return whether an object was read at a newer version than this version of the collection."""
        known, listed = self._versions.get(uid), read_version(version)
        return known is not None and listed is not None and known > listed

    def take(self, metadata: ObjectIdentity) -> bool:
        """Record an object that was read; return False if a newer version or its deletion is already recorded."""
        version = read_version(metadata.resource_version)
        if self._is_older(metadata.uid, version):
            return False
        self._versions[metadata.uid] = version
        return True

    def _is_older(self, uid: str, version: int | None) -> bool:
        known = self._versions.get(uid)
        return uid in self._deleted or (known is not None and version is not None and version < known)

    def end(self, metadata: ObjectIdentity) -> None:
        """Record that an object was deleted, so that an older version that arrives later is ignored."""
        self._versions.pop(metadata.uid, None)
        self._deleted[metadata.uid] = read_version(metadata.resource_version)
        if len(self._deleted) > _MAX_DELETED:
            del self._deleted[next(iter(self._deleted))]

    def list_differences(self, listed: Iterable[ObjectIdentity], version: str) -> dict[str, str]:
        """Return the objects whose known version is older than in a complete list: UIDs with the listed versions.

        If an object was deleted before the list was created, its version in the result is empty. Versions that are not
        integers are not compared.

        Args:
            listed: all objects of the list.
            version: the resource version of the list itself.
        """
        made = read_version(version)
        found, uids = dict[str, str](), set[str]()
        for each in listed:
            uids.add(each.uid)
            if each.uid in self._deleted:
                continue
            current, known = read_version(each.resource_version), self._versions.get(each.uid)
            if each.uid not in self._versions or (current is not None and known is not None and known < current):
                found[each.uid] = each.resource_version
        for uid, known in self._versions.items():
            if uid not in uids and made is not None and known is not None and known <= made:
                found[uid] = ""
        return found

    def discard_missing(self, listed: Collection[str], version: str, *, unsure: bool = False) -> list[str]:
        """Apply a complete list: discard the objects that it does not contain, and return their UIDs.

        An object is not discarded if its known version is newer than the list.

        Args:
            listed: the UIDs in the list.
            version: the resource version of the list itself.
            unsure: whether to apply the list if versions cannot be compared.
        """
        list_version = read_version(version)

        def is_older(known: int | None) -> bool:
            return unsure if list_version is None or known is None else known <= list_version

        missing = [uid for uid, known in self._versions.items() if uid not in listed and is_older(known)]
        for uid in missing:
            del self._versions[uid]
        # A list that is newer than a deletion cannot contain the object, so the record of the deletion is not needed.
        self._deleted = {uid: known for uid, known in self._deleted.items() if not is_older(known)}
        return missing
