"""Functions that add a label to nodes to share their cards, and that remove all of accelkit's data from nodes.

A kubelet sets the resources of a device plugin to 0 several minutes after the plugin has stopped, and never deletes the
keys. Therefore, `unshare` waits until the values are 0, deletes the keys from the node's status and checks that the
keys do not reappear.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec

from accelkit.errors import ApiError, ConfigurationError, ServiceError
from accelkit.install.nodes import POLL_SECONDS, for_each_node, list_named, list_nodes, wait_until_no_problem
from accelkit.install.owned_metadata import TABLES, OwnedMetadata, read_share_label
from accelkit.install.resource_checks import (
    find_library_problems,
    find_offer_problem,
    find_other_offers,
    is_sharing_requested,
)
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_node_path
from accelkit.model.keys import INVENTORY_ANNOTATION, SHARE_LABEL, SHARED
from accelkit.model.pod import Node
from accelkit.vendors.advertised import read_advertised
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import load_own_dialect

NATIVE: Final = load_own_dialect("native")


@dataclass(frozen=True)
class SharingResult:
    """The result of a change. For each changed node, `before` and `after` contain all data that accelkit owns.

    Attributes:
        changed: whether a node was changed. In check mode, whether a node would be changed.
        before: for each node, the labels, annotations, capacity and allocatable resources before the change.
        after: the same data after the change.
        nodes: the selected nodes, sorted.
        library_problems: for each node, the problems with vendors' libraries; empty if the run did not wait for the
            nodes.
    """

    changed: bool
    before: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    after: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    nodes: Sequence[str] = ()
    library_problems: Mapping[str, Sequence[str]] = field(default_factory=dict)


async def share(
    api: ApiClient,
    *,
    nodes: Collection[str] = (),
    check: bool = False,
    exclusive: bool = False,
    wait_seconds: float = 0.0,
    unit_bytes: int | None = None,
    dialect: Dialect = NATIVE,
    counted: Collection[str] = (),
    coexisting: Collection[str] = (),
    leave_out: Collection[str] = (),
) -> SharingResult:
    """Set `accelkit.io/share=true` on the given nodes, or on all nodes with cards on which it is not `false`.

    Args:
        api: an open client.
        nodes: the names of the nodes; empty for all nodes with cards.
        check: whether to skip all writes.
        exclusive: whether to remove the label from all other nodes. It has no effect if `nodes` is empty.
        wait_seconds: the maximum time to wait until every node offers its memory and cards; 0 to skip waiting.
        unit_bytes: the unit of the cluster. If it is set, also wait for agents that still use a different unit.
        dialect: the dialect whose resources the node agents serve.
        counted: the resources of other device plugins for which the extender charges the pods.
        coexisting: the names of nodes on which another device plugin may also allocate the cards.
        leave_out: the names of nodes that other owners manage. These nodes are not shared.

    Raises:
        ConfigurationError: a given node does not exist, or another device plugin allocates its cards.
        ServiceError: a node did not offer its cards before the timeout, or its agent cannot apply the unit.
        ApiError: the API server rejected the request or did not respond.
    """
    listed = await list_nodes(api)
    selected = _choose(listed, nodes) if nodes else [node for node in listed.values() if is_sharing_requested(node)]
    chosen = [node for node in selected if node.metadata.name not in leave_out]
    names = tuple(sorted(node.metadata.name for node in chosen))
    owned = OwnedMetadata(dialect)
    others = set(counted) - {*owned.resources}
    _refuse_other_plugins([node for node in chosen if node.metadata.name not in coexisting], others)
    former = {resource for node in listed.values() for resource in read_advertised(node)}
    patches: dict[str, Mapping[str, Mapping[str, str | None]]] = {
        node.metadata.name: missing for node in chosen if (missing := owned.find_missing(node, former))
    }
    if exclusive and nodes:
        dropped = [name for name, node in listed.items() if name not in names and read_share_label(node) == SHARED]
        patches |= {name: {"labels": {SHARE_LABEL: None}} for name in dropped}
    before = {name: owned.find(listed[name]) for name in patches}
    after = {name: _merge(before[name], patch) for name, patch in patches.items()}
    if not check:
        await for_each_node(patches, lambda name: _patch_metadata(api, name, patches[name]))
    offering: Mapping[str, Node] = {}
    if wait_seconds > 0 and not (check and patches):

        def find_problem(node: Node) -> str | None:
            return find_offer_problem(node, unit_bytes, dialect)

        offering = await wait_until_no_problem(
            api, names, wait_seconds, find_problem, "{count} of {all} nodes do not offer their cards: {list}"
        )
    problems = {name: found for name, node in sorted(offering.items()) if (found := find_library_problems(node))}
    return SharingResult(bool(patches), before, after, names, problems)


async def list_unexamined(
    api: ApiClient, nodes: Collection[str] = (), leave_out: Collection[str] = ()
) -> dict[str, bool]:
    """Return the nodes that can be shared and that no agent has examined yet.

    If `nodes` is not empty, only these nodes are considered. Otherwise, all nodes are considered except nodes whose
    label disables sharing. Nodes in `leave_out` are always excluded.

    Returns:
        For each node, sorted by name, whether the label of the node enables sharing.

    Raises:
        ConfigurationError: a given node does not exist.
        ApiError: the API server rejected the request or did not respond.
    """
    listed = await list_nodes(api)
    selected = _choose(listed, nodes) if nodes else [listed[name] for name in sorted(listed)]
    chosen = [node for node in selected if node.metadata.name not in leave_out]
    labels = {node.metadata.name: read_share_label(node) for node in chosen if not _is_known(node)}
    return {name: label == SHARED for name, label in labels.items() if nodes or label in (None, SHARED)}


async def unshare(
    api: ApiClient,
    *,
    nodes: Collection[str] = (),
    keep: Collection[str] = (),
    grace_seconds: float,
    confirm_seconds: float,
    check: bool = False,
    dialect: Dialect = NATIVE,
) -> SharingResult:
    """Remove accelkit's labels, annotations and resources from the given nodes, or from all nodes.

    A share label with a different value is not removed, because a user has set it.

    Args:
        api: an open client.
        nodes: the names of the nodes; empty for all nodes with data that accelkit owns.
        keep: the names of nodes that remain shared. Only the data of former dialects is removed from these nodes.
        grace_seconds: the maximum time to wait until the kubelets have set the resources to 0.
        confirm_seconds: the time for which the function checks that the deleted keys do not reappear.
        check: whether to skip all writes.
        dialect: the dialect whose resources the node agents have served.

    Raises:
        ConfigurationError: a given node does not exist.
        ServiceError: a kubelet still offers accelkit's resources after the grace period, or the resources reappeared.
        ApiError: the API server rejected the request or did not respond.
    """
    listed = await list_nodes(api)
    chosen = _choose(listed, nodes) if nodes else list(listed.values())
    owned = OwnedMetadata(dialect, keep)
    to_clear = {node.metadata.name: node for node in chosen if owned.find(node)}
    names = tuple(sorted(nodes or to_clear))
    before = {name: owned.find(node) for name, node in to_clear.items()}
    result = SharingResult(bool(to_clear), before, {name: {} for name in to_clear}, names)
    if check or not to_clear:
        return result
    await for_each_node(to_clear, lambda name: _clear_metadata(api, name, owned))
    still = "{count} of {all} nodes still offer accelkit's resources: {list}"
    await wait_until_no_problem(api, to_clear, grace_seconds, lambda node: _find_resources_left(node, owned), still)
    # An agent may have published its inventory again while it was stopping.
    await for_each_node(to_clear, lambda name: _clear_metadata(api, name, owned))
    await for_each_node(to_clear, lambda name: _delete_keys(api, name, owned))
    # The annotation with the names of the resources is removed after the resources.
    await for_each_node(to_clear, lambda name: _clear_metadata(api, name, owned))
    await _confirm_removal(api, to_clear, confirm_seconds, owned)
    return result


async def withdraw(api: ApiClient, *, grace_seconds: float, check: bool = False) -> SharingResult:
    """Remove the share label from all nodes, so that the agents stop, and wait until no kubelet offers resources.

    Afterwards, new pods cannot get cards while the extender is stopped. `unshare` removes the remaining data.

    Args:
        api: an open client.
        grace_seconds: the maximum time to wait for the kubelets.
        check: whether to skip all writes.

    Raises:
        ServiceError: a kubelet still offers accelkit's resources after the grace period. The labels have been removed.
        ApiError: the API server rejected the request or did not respond.
    """
    listed = await list_nodes(api)
    owned = OwnedMetadata(NATIVE)
    shared = {name: node for name, node in listed.items() if read_share_label(node) == SHARED}
    before = {name: owned.find(node) for name, node in shared.items()}
    unlabelled: dict[str, Mapping[str, str | None]] = {"labels": {SHARE_LABEL: None}}
    after = {name: _merge(before[name], unlabelled) for name in shared}
    if not check:
        await for_each_node(shared, lambda name: _patch_metadata(api, name, unlabelled))

        def find_problem(node: Node) -> str | None:
            return _find_resources_left(node, owned, ["allocatable"])

        still = "{count} of {all} nodes still offer accelkit's resources to pods: {list}"
        await wait_until_no_problem(api, listed, grace_seconds, find_problem, still)
    return SharingResult(bool(shared), before, after, tuple(sorted(shared)))


def _choose(listed: Mapping[str, Node], names: Iterable[str]) -> list[Node]:
    requested = sorted(set(names))
    if unknown := [name for name in requested if name not in listed]:
        raise ConfigurationError(
            f"cannot find the nodes {', '.join(unknown)}",
            next_step=f"choose among {', '.join(sorted(listed)) or 'no nodes'}",
        )
    return [listed[name] for name in requested]


def _is_known(node: Node) -> bool:
    """Return whether a node is shared and its agent has published an inventory."""
    return read_share_label(node) == SHARED and node.find_annotation(INVENTORY_ANNOTATION) is not None


def _refuse_other_plugins(nodes: Sequence[Node], counted: Collection[str]) -> None:
    # Even if accelkit's agents serve a resource, it belongs to another plugin until the node advertises it.
    ignored = {node.metadata.name: {*counted, *read_advertised(node)} for node in nodes}
    found = {node.metadata.name: find_other_offers(node, ignored[node.metadata.name]) for node in nodes}
    offers = {name: listed for name, listed in found.items() if listed}
    if offers:
        listing = "; ".join(f"{name}: {', '.join(found)}" for name, found in sorted(offers.items()))
        raise ConfigurationError(
            f"another device plugin offers the same cards ({listing}), so one card could be allocated twice",
            next_step="exclude these nodes from its DaemonSet (by its node selector, or by the label that its operator "
            "reads) and wait until their kubelets have set the resource to 0, after about five minutes; or exclude "
            "them with accelkit.io/share=false; or, if no pod requests both, list them in node_labels_coexisting",
        )


def _merge(
    metadata: Mapping[str, Mapping[str, str]], patch: Mapping[str, Mapping[str, str | None]]
) -> dict[str, Mapping[str, str]]:
    merged = {kind: {**metadata.get(kind, {}), **patch.get(kind, {})} for kind in {**metadata, **patch}}
    left = {kind: {key: value for key, value in table.items() if value is not None} for kind, table in merged.items()}
    return {kind: table for kind, table in left.items() if table}


def _find_resources_left(node: Node, owned: OwnedMetadata, tables: Iterable[str] = TABLES) -> str | None:
    left = {f"{name}: {n}" for table in tables for name, n in owned.find_resources(node, table).items() if n != "0"}
    return f"its kubelet still reports {', '.join(sorted(left))}" if left else None


async def _clear_metadata(api: ApiClient, name: str, owned: OwnedMetadata) -> None:
    node = msgspec.json.decode(await api.get(build_node_path(name)), type=Node)
    await _patch_metadata(api, name, owned.build_removal(node))


async def _patch_metadata(api: ApiClient, name: str, metadata: Mapping[str, Any]) -> None:
    await api.patch(build_node_path(name), {"metadata": metadata})


async def _delete_keys(api: ApiClient, name: str, owned: OwnedMetadata) -> None:
    for _ in range(3):
        node = msgspec.json.decode(await api.get(build_node_path(name)), type=Node)
        operations: list[dict[str, str]] = []
        for table in TABLES:
            for resource, value in owned.find_resources(node, table).items():
                path = f"/status/{table}/{resource.replace('/', '~1')}"
                # If a kubelet has offered the resource again, the test fails, and the key is not deleted.
                operations += [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]
        if not operations:
            return
        try:
            await api.patch(f"{build_node_path(name)}/status", operations, kind="json")
        except ApiError as exc:
            if not (exc.conflict or exc.status == HTTPStatus.UNPROCESSABLE_ENTITY):
                raise
    raise ServiceError(
        f"cannot delete resources from the status of node {name}: it changes too often", next_step="try again"
    )


async def _confirm_removal(api: ApiClient, names: Collection[str], seconds: float, owned: OwnedMetadata) -> None:
    deadline = time.monotonic() + seconds
    while True:
        back = sorted(name for name, node in (await list_named(api, names)).items() if owned.find(node))
        if back:
            raise ServiceError(
                f"labels, annotations or resources of accelkit reappeared on {', '.join(back)}",
                next_step="check that no node agent is running (DaemonSet, static pods), then try again",
            )
        if time.monotonic() >= deadline:
            return
        await asyncio.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
