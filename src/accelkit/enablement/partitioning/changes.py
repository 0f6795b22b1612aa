"""Computation of the smallest change to a node's labels and taints that is required to reach the desired state.

The annotation `accelkit.io/partitioning` records the labels and taints that accelkit writes, in the same request. Other
labels and taints do not belong to accelkit. A label with the desired value is not changed, and neither is a taint with
the desired key and effect. Different values are never overwritten. A value that another client changed later belongs to
that client.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from accelkit.enablement.partitioning.desired_nodes import TAINT_EFFECT, TAINT_VALUE, DesiredNode
from accelkit.enablement.partitioning.reasons import Conflict
from accelkit.model.keys import PARTITIONING_ANNOTATION, POOL_LABEL, ROLE_LABEL
from accelkit.model.object_meta import ObjectMeta

_VERSION: Final = 1
# A kubelet may write the annotation of its node, so keys that accelkit never writes are ignored.
_OUR_LABELS: Final = frozenset({ROLE_LABEL, POOL_LABEL})
_NOTHING: Final = DesiredNode()


class _Spec(msgspec.Struct):
    # The taints keep all fields, such as `timeAdded`, because the list is replaced as a whole.
    taints: list[dict[str, str]] | None = None


class TaintedNode(msgspec.Struct):
    """A node with its taints."""

    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def taints(self) -> list[dict[str, str]]:
        """The taints of the node."""
        return self.spec.taints or []


class _Record(msgspec.Struct, omit_defaults=True):
    version: int
    labels: dict[str, str] = {}
    taints: list[str] = []


class Change(msgspec.Struct, frozen=True):
    """The change to a node.

    Attributes:
        patch: the merge patch, which contains the resource version that was read; empty if no change is needed.
        before: the items on the node that are desired or recorded, as `label KEY=VALUE` and `taint KEY=VALUE:EFFECT`,
            sorted.
        after: the same items after the change.
        conflicts: labels whose values belong to other clients, or an unreadable record.
    """

    patch: dict[str, Any]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def plan_change(node: TaintedNode, desired: DesiredNode = _NOTHING) -> Change:
    """Return the change that adds the desired labels and taints, and removes accelkit's other labels and taints."""
    name, present, taints = node.metadata.name, node.metadata.labels or {}, node.taints
    owned = _find_owned(node)
    if owned is None:
        return Change({}, conflicts=(Conflict("RecordUnreadable", f"{PARTITIONING_ANNOTATION} of node {name}"),))
    owned_labels, owned_taints = owned
    patched: dict[str, str | None] = {key: None for key in owned_labels if key not in desired.labels}
    conflicts = []
    for key, value in desired.labels.items():
        if key in present and present[key] != value and key not in owned_labels:
            conflicts.append(Conflict("LabelOfAnother", f"node {name} has {key}={present[key]}, not {value}"))
        elif present.get(key) != value:
            patched[key] = value
    kept = [each for each in taints if not _is_ours(each, owned_taints) or each["key"] in desired.taints]
    present_keys = {each["key"] for each in kept if each.get("effect") == TAINT_EFFECT}
    added = [key for key in desired.taints if key not in present_keys]
    new_taints = kept + [{"key": key, "value": TAINT_VALUE, "effect": TAINT_EFFECT} for key in added]
    after_labels = {key: value for key, value in {**present, **patched}.items() if value is not None}
    record = _Record(
        _VERSION,
        {key: value for key, value in sorted({**owned_labels, **patched}.items()) if value is not None},
        sorted({*(key for key in owned_taints if key in desired.taints), *added}),
    )
    patch = _build_patch(node, patched, new_taints, record)
    affected = {*desired.labels, *owned_labels}
    return Change(
        patch,
        before=_list(present, affected, taints, {*desired.taints, *owned_taints}),
        after=_list(after_labels, affected, new_taints, {*desired.taints, *owned_taints}),
        conflicts=tuple(conflicts),
    )


def is_recorded(node: TaintedNode) -> bool:
    """Return whether a node has a record that accelkit wrote."""
    return PARTITIONING_ANNOTATION in (node.metadata.annotations or {})


def _build_patch(
    node: TaintedNode, labels: dict[str, str | None], taints: list[dict[str, str]], record: _Record
) -> dict[str, Any]:
    holds = bool(record.labels or record.taints)
    text = msgspec.json.encode(record).decode() if holds else None
    former = (node.metadata.annotations or {}).get(PARTITIONING_ANNOTATION)
    if not labels and taints == node.taints and text == former:
        return {}
    # The resource version prevents overwriting concurrent changes by other clients.
    metadata: dict[str, Any] = {"resourceVersion": node.metadata.resource_version}
    if labels:
        metadata["labels"] = labels
    if text != former:
        metadata["annotations"] = {PARTITIONING_ANNOTATION: text}
    patch: dict[str, Any] = {"metadata": metadata}
    if taints != node.taints:
        patch["spec"] = {"taints": taints or None}
    return patch


def _find_owned(node: TaintedNode) -> tuple[dict[str, str], tuple[str, ...]] | None:
    """Return the recorded labels and taint keys that are unchanged since; None if the record is unreadable."""
    text = (node.metadata.annotations or {}).get(PARTITIONING_ANNOTATION)
    try:
        record = msgspec.json.decode(text or '{"version": 1}', type=_Record)
    except (msgspec.MsgspecError, RecursionError):
        return None
    # Only the newer version of accelkit can remove changes that it made.
    if record.version != _VERSION:
        return None
    present = node.metadata.labels or {}
    labels = {key: value for key, value in record.labels.items() if key in _OUR_LABELS and present.get(key) == value}
    return labels, tuple(key for key in record.taints if any(_is_ours(each, (key,)) for each in node.taints))


def _is_ours(taint: dict[str, str], owned: tuple[str, ...]) -> bool:
    as_written = taint.get("value") == TAINT_VALUE and taint.get("effect") == TAINT_EFFECT
    return as_written and taint["key"] in owned


def _list(labels: dict[str, str], keys: set[str], taints: list[dict[str, str]], tainted: set[str]) -> tuple[str, ...]:
    items = [f"label {key}={labels[key]}" for key in keys if key in labels]
    items += [
        f"taint {each['key']}={each.get('value', '')}:{each.get('effect', '')}"
        for each in taints
        if each["key"] in tainted
    ]
    return tuple(sorted(items))
