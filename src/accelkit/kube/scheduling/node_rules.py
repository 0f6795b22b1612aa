"""Labels, taints and tolerations, judged as kube-scheduler does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

_KEEPING_OUT: Final = frozenset({"NoSchedule", "NoExecute"})


class Toleration(msgspec.Struct, omit_defaults=True):
    """A taint that a pod bears."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def bears(self, taint: Taint) -> bool:
        """Return whether it covers a taint; with an operator that is not known here it covers none."""
        if self.effect not in {"", taint.effect} or self.key not in {"", taint.key}:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.operator in {"", "Equal"} and self.value == taint.value


class Taint(msgspec.Struct):
    """What keeps pods from a node."""

    key: str
    value: str = ""
    effect: str = ""


_UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")


class TaintedSpec(msgspec.Struct):
    """spec of a node, with what keeps pods from it."""

    unschedulable: bool = False
    taints: list[Taint] | None = None

    def list_taints(self) -> list[Taint]:
        """Return the taints that keep pods out."""
        taints = [taint for taint in self.taints or () if taint.effect in _KEEPING_OUT]
        # Where somebody has cordoned the node, the taint follows later.
        if self.unschedulable and all(taint.key != _UNSCHEDULABLE.key for taint in taints):
            taints.append(_UNSCHEDULABLE)
        return taints


def bears_all(tolerations: Collection[Toleration], taints: Iterable[Taint]) -> bool:
    """Return whether a pod with these tolerations bears all taints."""
    return all(any(each.bears(taint) for each in tolerations) for taint in taints)


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Return whether a node has all labels of a pod's nodeSelector."""
    return all(labels.get(key) == value for key, value in selector.items())
