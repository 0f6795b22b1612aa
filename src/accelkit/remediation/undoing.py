"""Takes everything back on all nodes, for a removal; the service must not run meanwhile."""

from __future__ import annotations

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, build_node_path
from accelkit.remediation.deciding.actions import WriteCondition, WriteNode
from accelkit.remediation.deciding.lifting import build_undo
from accelkit.remediation.node_writes import write_node
from accelkit.remediation.nodes import SeenNode, view_node
from accelkit.texts import list_some, shorten

# Kubelets write their nodes all the time, so that a write may come too late.
_TRIES = 10


async def undo_all(api: ApiClient, *, dry_run: bool = False) -> list[str]:
    """Take back what the records of all nodes say; return the nodes that are, or would be, changed.

    Args:
        api: an open client.
        dry_run: whether nothing is written.

    Raises:
        ApiError: the API server did not answer; it refused, or a record cannot be read, when all others are done.
    """
    nodes, _ = await list_all(api, NODES, SeenNode)
    changed, unreadable, refused = list[str](), list[str](), list[str]()
    for node in sorted(nodes, key=lambda each: each.metadata.name):
        view = view_node(node)
        if view.record is None:
            # A kubelet may write the record of its node; the others are given back all the same.
            unreadable.append(view.name)
        elif build_undo(view):
            changed.append(view.name)
            try:
                if not dry_run:
                    await _undo(api, node)
            except ApiError as exc:
                # One that changes all the time, or is refused, keeps no other; one that is gone needs nothing.
                if exc.away:
                    raise
                if not exc.not_found:
                    refused.append(f"{view.name} ({shorten(exc.message)})")
    if unreadable:
        raise ApiError(
            f"the record of remediation on node {list_some(unreadable)} cannot be read",
            next_step="take cordon, taint, condition and the annotation accelkit.io/remediation off by hand",
        )
    if refused:
        raise ApiError(f"what was done is not taken back on node {list_some(refused)}", next_step="try again")
    return changed


async def _undo(api: ApiClient, node: SeenNode) -> None:
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


async def _read(api: ApiClient, name: str) -> SeenNode:
    found, _ = await list_all(api, NODES, SeenNode, query={"fieldSelector": f"metadata.name={name}"})
    if not found:
        raise ApiError(f"{build_node_path(name)} is gone", status=404)
    return found[0]
