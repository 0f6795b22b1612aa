"""Writer that applies and removes the labels and taints of a partition, with one request for each node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from accelkit.enablement.partitioning.changes import Change, TaintedNode, is_recorded, plan_change
from accelkit.enablement.partitioning.desired_nodes import DesiredNode, build_desired_nodes
from accelkit.enablement.partitioning.reasons import Conflict, refuse
from accelkit.enablement.partitioning.room import OwnPods, find_stranded
from accelkit.errors import AccelkitError, ApiError, ConfigurationError, ServiceError
from accelkit.install.nodes import for_each_node
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.keys import SHARE_LABEL, SHARED

# Other clients rarely change a node's taints, so more conflicts are not expected.
_TRIES: Final = 5


class Partition(msgspec.Struct, frozen=True):
    """The desired partition.

    Attributes:
        taints: resources whose names are the taint keys; empty if there is no hard partition.
        tainted: names of the nodes with these taints; empty for all shared nodes.
        roles: names of nodes by role.
        pools: names of nodes by pool.
        own_pods: accelkit's pods; each pod must still fit on at least one node.
    """

    taints: tuple[str, ...] = ()
    tainted: tuple[str, ...] = ()
    roles: Mapping[str, Sequence[str]] = {}
    pools: Mapping[str, Sequence[str]] = {}
    own_pods: tuple[OwnPods, ...] = ()


class Applied(msgspec.Struct, frozen=True):
    """The labels and taints of each changed node, before and after; in check mode, the expected changes."""

    before: dict[str, tuple[str, ...]]
    after: dict[str, tuple[str, ...]]
    tainted: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether any node changed."""
        return bool(self.after)


async def apply_partition(api: ApiClient, partition: Partition, *, check: bool = False) -> Applied:
    """Apply the desired labels and taints to all nodes, and remove accelkit's labels and taints that are not desired.

    Args:
        api: an open client.
        partition: the desired partition.
        check: whether to skip all writes.

    Raises:
        ConfigurationError: a node does not exist, is in two roles or pools, or has a label or record that conflicts
            with the partition; or accelkit's own pods do not tolerate the taints of any node. No node was changed.
        ServiceError: a node changes too often to be written; all other nodes were written.
        ApiError: the API server did not respond; or it rejected the change of one node, and all other nodes were
            written.
    """
    listed, _ = await list_all(api, NODES, TaintedNode)
    nodes = {node.metadata.name: node for node in listed}
    shared = tuple(sorted(name for name, node in nodes.items() if _is_shared(node)))
    tainted = (partition.tainted or shared) if partition.taints else ()
    desired_nodes = build_desired_nodes(
        nodes, taints=partition.taints, tainted=tainted, roles=partition.roles, pools=partition.pools
    )
    changes = {name: plan_change(node, desired_nodes[name]) for name, node in nodes.items()}
    if conflicts := [each for name in sorted(changes) for each in changes[name].conflicts]:
        raise refuse(*conflicts)
    if stranded := find_stranded(partition.own_pods, listed, keys=partition.taints, tainted=tainted):
        keys, names = ", ".join(partition.taints), ", ".join(map(str, stranded))
        text = f"taints with the keys {keys} on {', '.join(tainted)} leave no node for {names}"
        raise refuse(Conflict("NoNodeLeft", text))
    return await _write(
        api, changes, lambda node: plan_change(node, desired_nodes[node.metadata.name]), tainted, check=check
    )


async def remove_partition(api: ApiClient, *, check: bool = False) -> Applied:
    """Remove the recorded labels and taints from all nodes.

    Raises:
        ConfigurationError: the record of a node cannot be read; all other nodes were written.
        ServiceError: a node changes too often to be written; all other nodes were written.
        ApiError: the API server did not respond; or it rejected the change of one node, and all other nodes were
            written.
    """
    listed, _ = await list_all(api, NODES, TaintedNode)
    changes = {node.metadata.name: plan_change(node, DesiredNode()) for node in listed if is_recorded(node)}
    removed = await _write(api, changes, plan_change, (), check=check)
    # Raise the error after all nodes were handled, because a kubelet may write the record of its node, which must not
    # block other nodes.
    if conflicts := [each for name in sorted(changes) for each in changes[name].conflicts]:
        raise refuse(*conflicts)
    return removed


async def _write(
    api: ApiClient,
    changes: Mapping[str, Change],
    plan: Callable[[TaintedNode], Change],
    tainted: tuple[str, ...],
    *,
    check: bool,
) -> Applied:
    planned = {name: each for name, each in sorted(changes.items()) if each.patch}
    refused: dict[str, AccelkitError] = {}

    async def change(name: str) -> None:
        try:
            await _change(api, name, planned[name], plan)
        except (ApiError, ConfigurationError, ServiceError) as exc:
            if isinstance(exc, ApiError) and (exc.unavailable or exc.not_found):
                raise
            # A kubelet may change its node often, or fill its annotations, which must not block the other nodes.
            refused[name] = exc

    if not check:
        await for_each_node(planned, change)
    if refused:
        raise refused[min(refused)]
    return Applied(
        {name: each.before for name, each in planned.items()},
        {name: each.after for name, each in planned.items()},
        tainted,
    )


async def _change(api: ApiClient, name: str, change: Change, plan: Callable[[TaintedNode], Change]) -> None:
    path = build_node_path(name)
    for _ in range(_TRIES):
        if not change.patch:
            return
        try:
            await api.patch(path, change.patch)
        except ApiError as exc:
            if not exc.conflict:
                raise
        else:
            return
        change = plan(msgspec.json.decode(await api.get(path), type=TaintedNode))
        if change.conflicts:
            raise refuse(*change.conflicts)
    raise ServiceError(f"cannot write the taints of node {name}: it changes too often", next_step="try again")


def _is_shared(node: TaintedNode) -> bool:
    return (node.metadata.labels or {}).get(SHARE_LABEL) == SHARED
