"""Which smallest change gives a node what it is to have, and which gives back what it had.

The annotation `accelkit.io/partitioning` records what we wrote; it is written by the same request. What somebody else
wrote is not ours: a label with the value that is wanted, or a taint with its key and effect, is used as it is, and
another value is never overwritten. What was changed after we wrote it is somebody else's from then on.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from accelkit.enablement.partitioning.desired_nodes import TAINT_EFFECT, TAINT_VALUE, DesiredNode
from accelkit.enablement.partitioning.reasons import LABEL_OF_ANOTHER, RECORD_UNREADABLE
from accelkit.model.keys import PARTITIONING_ANNOTATION, POOL_LABEL, ROLE_LABEL
from accelkit.model.object_meta import ObjectMeta

_VERSION: Final = 1
# A kubelet may write the annotation of its node: what we never write is nothing to it.
_OUR_LABELS: Final = frozenset({ROLE_LABEL, POOL_LABEL})
_NOTHING: Final = DesiredNode()


class _Spec(msgspec.Struct):
    # With all of their fields, as the time at which pods begin to be evicted: the list is written as a whole.
    taints: list[dict[str, str]] | None = None


class TaintedNode(msgspec.Struct):
    """A node, with its taints as they are."""

    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def taints(self) -> list[dict[str, str]]:
        """Its taints."""
        return self.spec.taints or []


class _Record(msgspec.Struct, omit_defaults=True):
    version: int
    labels: dict[str, str] = {}
    taints: list[str] = []


class Change(msgspec.Struct, frozen=True):
    """What becomes of a node.

    Attributes:
        patch: the merge patch that changes it, at the version that was read; empty where it is as it should be.
        before: what it has of what is wanted or was written, as `label KEY=VALUE` and `taint KEY=VALUE:EFFECT`, sorted.
        after: the same afterwards.
        conflicts: what somebody else wrote in the place of what is wanted, as sentences.
    """

    patch: dict[str, Any]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def plan_change(node: TaintedNode, desired: DesiredNode = _NOTHING) -> Change:
    """Return the change by which a node has what it is to have, and no more of what we wrote before."""
    present, taints = node.metadata.labels or {}, node.taints
    owned = _find_owned(node)
    if owned is None:
        return Change({}, conflicts=(f"{RECORD_UNREADABLE}: {PARTITIONING_ANNOTATION} of node {node.metadata.name}",))
    owned_labels, owned_taints = owned
    patched: dict[str, str | None] = {key: None for key in owned_labels if key not in desired.labels}
    conflicts = []
    for key, value in desired.labels.items():
        if key in present and present[key] != value and key not in owned_labels:
            conflicts.append(f"{LABEL_OF_ANOTHER}: node {node.metadata.name} has {key}={present[key]}, not {value}")
        elif present.get(key) != value:
            patched[key] = value
    kept = [each for each in taints if not _is_ours(each, owned_taints) or each["key"] in desired.taints]
    there = {each["key"] for each in kept if each.get("effect") == TAINT_EFFECT}
    added = [key for key in desired.taints if key not in there]
    wanted = kept + [{"key": key, "value": TAINT_VALUE, "effect": TAINT_EFFECT} for key in added]
    after_labels = {key: value for key, value in {**present, **patched}.items() if value is not None}
    record = _Record(
        _VERSION,
        {key: value for key, value in sorted({**owned_labels, **patched}.items()) if value is not None},
        sorted({*(key for key in owned_taints if key in desired.taints), *added}),
    )
    patch = _build_patch(node, patched, wanted, record)
    affected = {*desired.labels, *owned_labels}
    return Change(
        patch,
        before=_list(present, affected, taints, {*desired.taints, *owned_taints}),
        after=_list(after_labels, affected, wanted, {*desired.taints, *owned_taints}),
        conflicts=tuple(conflicts),
    )


def is_recorded(node: TaintedNode) -> bool:
    """Return whether a node has our record."""
    return PARTITIONING_ANNOTATION in (node.metadata.annotations or {})


def _build_patch(
    node: TaintedNode, labels: dict[str, str | None], taints: list[dict[str, str]], record: _Record
) -> dict[str, Any]:
    holds = bool(record.labels or record.taints)
    text = msgspec.json.encode(record).decode() if holds else None
    former = (node.metadata.annotations or {}).get(PARTITIONING_ANNOTATION)
    if not labels and taints == node.taints and text == former:
        return {}
    # What somebody writes between reading and writing is not overwritten.
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
    """Return the labels, and the keys of taints, that we wrote and that are still as we wrote them; None if unknown."""
    text = (node.metadata.annotations or {}).get(PARTITIONING_ANNOTATION)
    try:
        record = msgspec.json.decode(text or '{"version": 1}', type=_Record)
    except (msgspec.MsgspecError, RecursionError):
        return None
    # What a newer accelkit wrote is taken back by that one.
    if record.version != _VERSION:
        return None
    present = node.metadata.labels or {}
    labels = {key: value for key, value in record.labels.items() if key in _OUR_LABELS and present.get(key) == value}
    return labels, tuple(key for key in record.taints if any(_is_ours(each, (key,)) for each in node.taints))


def _is_ours(taint: dict[str, str], owned: tuple[str, ...]) -> bool:
    as_written = taint.get("value") == TAINT_VALUE and taint.get("effect") == TAINT_EFFECT
    return as_written and taint["key"] in owned


def _list(labels: dict[str, str], keys: set[str], taints: list[dict[str, str]], tainted: set[str]) -> tuple[str, ...]:
    shown = [f"label {key}={labels[key]}" for key in keys if key in labels]
    shown += [
        f"taint {each['key']}={each.get('value', '')}:{each.get('effect', '')}"
        for each in taints
        if each["key"] in tainted
    ]
    return tuple(sorted(shown))
