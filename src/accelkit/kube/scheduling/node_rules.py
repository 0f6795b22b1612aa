"""Evaluation of labels, taints and tolerations according to the same rules as in kube-scheduler."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from accelkit.kube.views.scheduling import Taint, Toleration


def tolerates_all(tolerations: Collection[Toleration], taints: Iterable[Taint]) -> bool:
    """Return whether a pod with these tolerations tolerates all taints."""
    return all(any(each.tolerates(taint) for each in tolerations) for taint in taints)


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Return whether a node has all labels of a pod's nodeSelector."""
    return all(labels.get(key) == value for key, value in selector.items())
