"""Labels, taints and tolerations, evaluated as kube-scheduler does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

_EXCLUDING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})


class Toleration(msgspec.Struct, omit_defaults=True):
    """A toleration of a pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether it tolerates a taint; a toleration with an unknown operator tolerates none."""
        if self.effect not in {"", taint.effect} or self.key not in {"", taint.key}:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.operator in {"", "Equal"} and self.value == taint.value


class Taint(msgspec.Struct):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = ""


_UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")


class TaintedSpec(msgspec.Struct):
    """The spec of a node with the fields that keep pods from it."""

    unschedulable: bool = False
    taints: list[Taint] | None = None

    def list_taints(self) -> list[Taint]:
        """Return the taints that prevent the scheduling of pods."""
        taints = [taint for taint in self.taints or () if taint.effect in _EXCLUDING_EFFECTS]
        # After a cordon, Kubernetes adds the taint with a delay.
        if self.unschedulable and all(taint.key != _UNSCHEDULABLE.key for taint in taints):
            taints.append(_UNSCHEDULABLE)
        return taints


def tolerates_all(tolerations: Collection[Toleration], taints: Iterable[Taint]) -> bool:
    """Return whether a pod with these tolerations tolerates all taints."""
    return all(any(each.tolerates(taint) for each in tolerations) for taint in taints)


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Return whether a node has all labels of a pod's nodeSelector."""
    return all(labels.get(key) == value for key, value in selector.items())
