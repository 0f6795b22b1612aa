"""Removal of all remediation changes from all nodes. The remediation service must not run at the same time."""

from __future__ import annotations

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, build_node_path
from accelkit.remediation.deciding.actions import WriteCondition, WriteNode
from accelkit.remediation.deciding.lifting import build_undo
from accelkit.remediation.node_writes import write_node
from accelkit.remediation.nodes import NodeObject, view_node
from accelkit.texts import list_some, shorten

# The number of attempts for each node. The kubelet changes the node frequently, which causes conflicts.
_TRIES = 10


async def undo_all(api: ApiClient, *, dry_run: bool = False) -> list[str]:
    """Undo the changes in the records of all nodes; return the nodes that were changed, or would be in a dry run.

    Args:
        api: an open client.
        dry_run: whether to skip all writes.

    Raises:
        ApiError: the API server did not respond. If the API server rejected a write, or a record is unreadable, the
            error is raised after all other nodes have been processed.
    """
    nodes, _ = await list_all(api, NODES, NodeObject)
    changed, unreadable, refused = list[str](), list[str](), list[str]()
    for node in sorted(nodes, key=lambda each: each.metadata.name):
        view = view_node(node)
        if view.record is None:
            # A kubelet can write the record of its node, so an unreadable record must not prevent changes to other
            # nodes.
            unreadable.append(view.name)
        elif build_undo(view):
            changed.append(view.name)
            try:
                if not dry_run:
                    await _undo(api, node)
            except ApiError as exc:
                # If a write to one node is rejected, other nodes must still be processed. Deleted nodes do not require
                # a write.
                if exc.unavailable:
                    raise
                if not exc.not_found:
                    refused.append(f"{view.name} ({shorten(exc.message)})")
    if unreadable:
        raise ApiError(
            f"cannot read the remediation record of node {list_some(unreadable)}",
            next_step="remove the cordon, the taint, the condition and the annotation accelkit.io/remediation manually",
        )
    if refused:
        raise ApiError(f"cannot undo the remediation of node {list_some(refused)}", next_step="try again")
    return changed


async def _undo(api: ApiClient, node: NodeObject) -> None:
    for left in reversed(range(_TRIES)):
        view = view_node(node)
        version = view.version
        try:
            for action in build_undo(view):
                if isinstance(action, WriteNode | WriteCondition):
                    version = (await write_node(api, view, version, action)).metadata.resource_version
        except ApiError as exc:
            if not exc.conflict or not left:
                raise
            node = await _read(api, view.name)
        else:
            return


async def _read(api: ApiClient, name: str) -> NodeObject:
    found, _ = await list_all(api, NODES, NodeObject, query={"fieldSelector": f"metadata.name={name}"})
    if not found:
        raise ApiError(f"{build_node_path(name)} does not exist", status=404)
    return found[0]
