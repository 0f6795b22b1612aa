"""Gives nodes the labels and taints of their part of the cluster, and takes them back; each node by one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from accelkit.enablement.partitioning.changes import Change, TaintedNode, is_recorded, plan_change
from accelkit.enablement.partitioning.desired_nodes import DesiredNode, build_desired_nodes
from accelkit.enablement.partitioning.reasons import NO_NODE_LEFT, REASONS
from accelkit.enablement.partitioning.room import OwnPods, find_homeless
from accelkit.errors import AccelkitError, ApiError, ConfigurationError, ServiceError
from accelkit.install.nodes import for_each_node
from accelkit.install.owned_metadata import SHARED
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.keys import SHARE_LABEL

# Who else changes a node's taints does so rarely: nobody wins more often than this.
_TRIES: Final = 5


class Partition(msgspec.Struct, frozen=True):
    """Which nodes are set apart.

    Attributes:
        taints: resources whose names are the keys of taints; none for no hard partition.
        tainted: names of the nodes with these taints; empty for all whose cards are shared.
        roles: names of nodes by role.
        pools: names of nodes by pool.
        own_pods: that the taints have to leave a node.
    """

    taints: tuple[str, ...] = ()
    tainted: tuple[str, ...] = ()
    roles: Mapping[str, Sequence[str]] = {}
    pools: Mapping[str, Sequence[str]] = {}
    own_pods: tuple[OwnPods, ...] = ()


class Applied(msgspec.Struct, frozen=True):
    """What was done, or in check mode would be: by node that changes, what it has of it before and afterwards."""

    before: dict[str, tuple[str, ...]]
    after: dict[str, tuple[str, ...]]
    tainted: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether any node changes."""
        return bool(self.after)


async def apply_partition(api: ApiClient, partition: Partition, *, check: bool = False) -> Applied:
    """Give all nodes what they are to have, and take from them what they were given before and are not to have now.

    Args:
        api: an open client.
        partition: which nodes are set apart.
        check: write nothing.

    Raises:
        ConfigurationError: a node does not exist, is in two roles or pools, has a label of somebody else in the place
            of one that is wanted, or a record that cannot be read, or the taints leave pods of accelkit's own no node;
            no node was changed.
        ServiceError: a node changes faster than it can be written; all others were.
        ApiError: the API server did not answer, or refused a node, when all others were written.
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
        raise _build_refusal(conflicts)
    if homeless := find_homeless(partition.own_pods, listed, keys=partition.taints, tainted=tainted):
        keys, names = ", ".join(partition.taints), ", ".join(map(str, homeless))
        raise _build_refusal([f"{NO_NODE_LEFT}: taints of {keys} on {', '.join(tainted)} leave no node to {names}"])
    return await _write(
        api, changes, lambda node: plan_change(node, desired_nodes[node.metadata.name]), tainted, check=check
    )


async def remove_partition(api: ApiClient, *, check: bool = False) -> Applied:
    """Take from all nodes what is recorded there as ours.

    Raises:
        ConfigurationError: the record of a node cannot be read; all others were given back.
        ServiceError: a node changes faster than it can be written; all others were.
        ApiError: the API server did not answer, or refused a node, when all others were written.
    """
    listed, _ = await list_all(api, NODES, TaintedNode)
    changes = {node.metadata.name: plan_change(node, DesiredNode()) for node in listed if is_recorded(node)}
    removed = await _write(api, changes, plan_change, (), check=check)
    # Told at the end: a kubelet may write the record of its node, and the others are given back all the same.
    if conflicts := [each for name in sorted(changes) for each in changes[name].conflicts]:
        raise _build_refusal(conflicts)
    return removed


async def _write(
    api: ApiClient,
    changes: Mapping[str, Change],
    plan: Callable[[TaintedNode], Change],
    tainted: tuple[str, ...],
    *,
    check: bool,
) -> Applied:
    due = {name: each for name, each in sorted(changes.items()) if each.patch}
    refused: dict[str, AccelkitError] = {}

    async def change(name: str) -> None:
        try:
            await _change(api, name, due[name], plan)
        except (ApiError, ConfigurationError, ServiceError) as exc:
            if isinstance(exc, ApiError) and (exc.away or exc.not_found):
                raise
            # A kubelet may change its node all the time, and fill its annotations: the others are written all the same.
            refused[name] = exc

    if not check:
        await for_each_node(due, change)
    if refused:
        raise refused[min(refused)]
    return Applied(
        {name: each.before for name, each in due.items()}, {name: each.after for name, each in due.items()}, tainted
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
            raise _build_refusal(change.conflicts)
    raise ServiceError(f"node {name} changes faster than its taints can be written", next_step="try again")


def _build_refusal(conflicts: Sequence[str]) -> ConfigurationError:
    code = conflicts[0].partition(":")[0]
    return ConfigurationError("; ".join(conflicts), next_step=REASONS[code])


def _is_shared(node: TaintedNode) -> bool:
    return (node.metadata.labels or {}).get(SHARE_LABEL) == SHARED
