"""UIDs in the names of pods' cgroups. For a static pod, this is the kubelet's UID, not the UID from the API server.

The mirror pod of a static pod contains the kubelet's UID in an annotation. A user could set this annotation on another
pod to claim the cgroup of the static pod. Therefore, the annotation is accepted only from a mirror pod that the kubelet
reports, and only if no other pod has or claims the UID. A kubelet does not run a mirror pod that it has not created.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Final

from accelkit.model.keys import CONFIG_HASH_ANNOTATION, MIRROR_ANNOTATION
from accelkit.model.pod import Pod

STATIC_ANNOTATIONS: Final = (CONFIG_HASH_ANNOTATION, MIRROR_ANNOTATION)
_UID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


class StaticPods:
    """All pods of a node, with the UIDs that mirror pods claim.

    Args:
        reported: the namespaces and names of all pods that the kubelet reports.
    """

    def __init__(self, reported: Collection[tuple[str, str]] = ()) -> None:
        self._reported = frozenset(reported)
        self._names: dict[str, tuple[str, str]] = {}
        self._claims: dict[str, str] = {}

    def put(self, pod: Pod) -> None:
        """Add or replace a pod."""
        uid = pod.metadata.uid
        self._names[uid] = pod.metadata.namespace, pod.metadata.name
        claim = pod.find_annotation(CONFIG_HASH_ANNOTATION) or ""
        if _UID.fullmatch(claim) and pod.find_annotation(MIRROR_ANNOTATION) == claim:
            self._claims[uid] = claim
        else:
            self._claims.pop(uid, None)

    def drop(self, uid: str) -> None:
        """Remove a pod that no longer exists."""
        self._names.pop(uid, None)
        self._claims.pop(uid, None)

    def confirm(self, reported: Collection[tuple[str, str]]) -> bool:
        """Replace the set of pods that the kubelet reports; return whether the set has changed."""
        before, self._reported = self._reported, frozenset(reported)
        return before != self._reported

    def find_cgroup_uid(self, uid: str) -> str:
        """Return the UID that occurs in the name of a pod's cgroup."""
        confirmed = {each: claim for each, claim in self._claims.items() if self._names[each] in self._reported}
        claim = confirmed.get(uid)
        if claim is None or claim in self._names:
            return uid
        return claim if Counter(confirmed.values())[claim] == 1 else uid

    def list_cgroup_uids(self) -> frozenset[str]:
        """Return the UIDs that may occur in the names of the pods' cgroups."""
        return frozenset((*self._names, *map(self.find_cgroup_uid, self._claims)))
