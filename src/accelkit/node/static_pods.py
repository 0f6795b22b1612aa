"""Tells by which UID a pod's cgroup is named: for a static pod by the kubelet's own, which the API server's is not.

The mirror of a static pod carries that UID in an annotation, and anybody can write it on a pod of his, to be taken for
another pod. It is believed of a mirror pod that the kubelet shows, where nobody else has the UID: a kubelet does not
run a mirror pod that it has not made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Final

from accelkit.model.pod import Pod

_STATIC_UID: Final = "kubernetes.io/config.hash"
_MIRROR: Final = "kubernetes.io/config.mirror"
STATIC_ANNOTATIONS: Final = (_STATIC_UID, _MIRROR)
_UID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


class StaticPods:
    """All pods of a node with the UIDs that mirror pods claim.

    Args:
        shown: namespaces and names of all pods that the kubelet shows.
    """

    def __init__(self, shown: Collection[tuple[str, str]] = ()) -> None:
        self.shown = frozenset(shown)
        self._names: dict[str, tuple[str, str]] = {}
        self._claims: dict[str, str] = {}

    def put(self, pod: Pod) -> None:
        """Take over a pod."""
        uid = pod.metadata.uid
        self._names[uid] = pod.metadata.namespace, pod.metadata.name
        claim = pod.find_annotation(_STATIC_UID) or ""
        if _UID.fullmatch(claim) and pod.find_annotation(_MIRROR) == claim:
            self._claims[uid] = claim
        else:
            self._claims.pop(uid, None)

    def drop(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._names.pop(uid, None)
        self._claims.pop(uid, None)

    def confirm(self, shown: Collection[tuple[str, str]]) -> bool:
        """Take over which pods the kubelet shows; False where nothing has changed."""
        before, self.shown = self.shown, frozenset(shown)
        return before != self.shown

    def find_cgroup_uid(self, uid: str) -> str:
        """Return the UID by which a pod's cgroup is named."""
        shown = {each: claim for each, claim in self._claims.items() if self._names[each] in self.shown}
        claim = shown.get(uid)
        if claim is None or claim in self._names:
            return uid
        return claim if Counter(shown.values())[claim] == 1 else uid

    def list_cgroup_uids(self) -> frozenset[str]:
        """Return the UIDs by which the cgroups of all pods may be named."""
        return frozenset((*self._names, *map(self.find_cgroup_uid, self._claims)))
