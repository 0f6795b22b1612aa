"""Requests that change the metadata, the taints or the condition of a node."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_node_path
from accelkit.model.keys import CORDON_KEY, REMEDIATION_ANNOTATION, REPAIRED_ANNOTATION
from accelkit.remediation.deciding.actions import WriteCondition, WriteNode
from accelkit.remediation.deciding.isolation import CONDITION
from accelkit.remediation.deciding.record import write_record
from accelkit.remediation.deciding.views import RemediationNode
from accelkit.remediation.nodes import NodeObject


async def write_node(
    api: ApiClient, view: RemediationNode, version: str, action: WriteNode | WriteCondition
) -> NodeObject:
    """Change a node if its resource version is unchanged; return the changed node.

    Raises:
        ApiError: the API server rejected the request or did not respond. The status is 409 if another client has
            changed the node in the meantime.
    """
    precondition = {"uid": view.uid, "resourceVersion": version}
    path = build_node_path(view.name)
    if isinstance(action, WriteNode):
        patch = build_node_patch(action)
        patch["metadata"] |= precondition
        answer = await api.patch(path, patch)
    else:
        patch = {**build_condition_patch(action), "metadata": precondition}
        answer = await api.patch(f"{path}/status", patch, kind="strategic")
    return msgspec.json.decode(answer, type=NodeObject)


def build_node_patch(action: WriteNode) -> dict[str, Any]:
    """Return the merge patch for a node. It does not contain the fields that identify the node."""
    annotations: dict[str, str | None] = {REMEDIATION_ANNOTATION: write_record(action.record)}
    if "cordon" in action.changed:
        annotations[CORDON_KEY] = action.cordon
    if "repaired" in action.changed:
        annotations[REPAIRED_ANNOTATION] = action.repaired
    patch: dict[str, Any] = {"metadata": {"annotations": annotations}}
    if "taints" in action.changed:
        patch["spec"] = {"taints": msgspec.to_builtins(list(action.taints)) or None}
    return patch


def build_condition_patch(action: WriteCondition, now: datetime | None = None) -> dict[str, Any]:
    """Return the strategic merge patch for the status of a node. It does not change other conditions."""
    condition: dict[str, str] = {"type": CONDITION}
    if action.reason:
        at = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition |= {"status": "False", "reason": action.reason, "message": action.message}
        condition |= {"lastTransitionTime": at, "lastHeartbeatTime": at}
    else:
        condition["$patch"] = "delete"
    return {"status": {"conditions": [condition]}}
