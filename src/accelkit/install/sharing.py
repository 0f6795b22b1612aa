"""Shares the cards of nodes, by a label, and removes everything that accelkit owns on them again.

A kubelet only sets the resources of a vanished device plugin to 0, some minutes after it is gone, and never deletes the
keys. So `unshare` waits for these zeros, deletes the keys in the node's status and watches that they stay away.
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
from accelkit.install.offers import find_library_problems, find_offer_problem, find_other_offers, wants_sharing
from accelkit.install.owned_metadata import SHARED, TABLES, OwnedMetadata, read_share_label
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_node_path
from accelkit.model.keys import INVENTORY_ANNOTATION, SHARE_LABEL
from accelkit.model.pod import Node
from accelkit.vendors.advertised import read_advertised
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import load_own_dialect

NATIVE: Final = load_own_dialect("native")


@dataclass(frozen=True)
class Sharing:
    """What was done. `before` and `after` hold, per node that changes, all that accelkit owns on it.

    Attributes:
        changed: whether anything was (in check mode: would be) written.
        before: per node: labels, annotations, capacity, allocatable.
        after: the same afterwards.
        nodes: the nodes that were chosen, sorted.
        library_problems: per node, what is wrong with the vendors' libraries there, where its offer was waited for.
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
) -> Sharing:
    """Set `accelkit.io/share=true` on nodes: the named ones, else all with cards that do not say `false`.

    Args:
        api: an open client.
        nodes: names; empty for all nodes with cards.
        check: write nothing.
        exclusive: take this label off all nodes that are not named, where nodes are.
        wait_seconds: where positive, wait that long for every node to offer its memory and cards.
        unit_bytes: the cluster's unit, where agents that were told another are waited for too.
        dialect: whose resources the node agents serve.
        counted: resources of other device plugins whose pods the extender counts.
        coexisting: names of nodes on which another device plugin may give the cards all the same.
        leave_out: names of nodes that are left to their owners.

    Raises:
        ConfigurationError: a named node does not exist, or another device plugin gives its cards.
        ServiceError: a node does not offer anything in time, or its agent cannot take the unit over.
        ApiError: the API server refused or did not answer.
    """
    listed = await list_nodes(api)
    wanted = _choose(listed, nodes) if nodes else [node for node in listed.values() if wants_sharing(node)]
    chosen = [node for node in wanted if node.metadata.name not in leave_out]
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
    return Sharing(bool(patches), before, after, names, problems)


async def list_unexamined(
    api: ApiClient, nodes: Collection[str] = (), leave_out: Collection[str] = ()
) -> dict[str, bool]:
    """Return the nodes that may be shared, and that no agent looks at yet: of the named ones, else of all.

    Nodes that are labelled not to be shared are left out unless they are named, and nodes of others in any case.

    Returns:
        By name, sorted, whether somebody has labelled the node to be shared.

    Raises:
        ConfigurationError: a named node does not exist.
        ApiError: the API server refused or did not answer.
    """
    listed = await list_nodes(api)
    wanted = _choose(listed, nodes) if nodes else [listed[name] for name in sorted(listed)]
    chosen = [node for node in wanted if node.metadata.name not in leave_out]
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
) -> Sharing:
    """Remove our labels, annotations and resources from nodes: the named ones, else all that have any of these.

    A share label with another value than ours is what somebody else said, and stays.

    Args:
        api: an open client.
        nodes: names; empty for all nodes that have something of ours.
        keep: names of nodes that stay shared; they lose only what a former dialect left.
        grace_seconds: how long to wait for the kubelets to have given up the resources.
        confirm_seconds: how long to watch that the deleted keys stay away.
        check: write nothing.
        dialect: whose resources the node agents served.

    Raises:
        ConfigurationError: a named node does not exist.
        ServiceError: a kubelet still offers our resources after the grace, or they came back.
        ApiError: the API server refused or did not answer.
    """
    listed = await list_nodes(api)
    chosen = _choose(listed, nodes) if nodes else list(listed.values())
    owned = OwnedMetadata(dialect, keep)
    to_clear = {node.metadata.name: node for node in chosen if owned.find(node)}
    names = tuple(sorted(nodes or to_clear))
    before = {name: owned.find(node) for name, node in to_clear.items()}
    result = Sharing(bool(to_clear), before, {name: {} for name in to_clear}, names)
    if check or not to_clear:
        return result
    await for_each_node(to_clear, lambda name: _clear_metadata(api, name, owned))
    still = "{count} of {all} nodes still offer our resources: {list}"
    await wait_until_no_problem(api, to_clear, grace_seconds, lambda node: _find_resources_left(node, owned), still)
    # An agent on its way out may have published its inventory once more.
    await for_each_node(to_clear, lambda name: _clear_metadata(api, name, owned))
    await for_each_node(to_clear, lambda name: _delete_keys(api, name, owned))
    # Names of resources are kept until these are gone.
    await for_each_node(to_clear, lambda name: _clear_metadata(api, name, owned))
    await _confirm_removal(api, to_clear, confirm_seconds, owned)
    return result


async def withdraw(api: ApiClient, *, grace_seconds: float, check: bool = False) -> Sharing:
    """Have the node agents leave all nodes, and wait until no kubelet offers our resources to new pods.

    Whoever then stops counting leaves no node to pods that nobody counts. The rest of what is ours goes by `unshare`.

    Args:
        api: an open client.
        grace_seconds: how long to wait for the kubelets.
        check: write nothing.

    Raises:
        ServiceError: a kubelet still offers our resources after the grace; the labels are gone all the same.
        ApiError: the API server refused or did not answer.
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

        still = "{count} of {all} nodes still offer our resources to pods: {list}"
        await wait_until_no_problem(api, listed, grace_seconds, find_problem, still)
    return Sharing(bool(shared), before, after, tuple(sorted(shared)))


def _choose(listed: Mapping[str, Node], names: Iterable[str]) -> list[Node]:
    wanted = sorted(set(names))
    if unknown := [name for name in wanted if name not in listed]:
        raise ConfigurationError(
            f"there is no node {', '.join(unknown)}",
            next_step=f"choose among {', '.join(sorted(listed)) or 'no nodes'}",
        )
    return [listed[name] for name in wanted]


def _is_known(node: Node) -> bool:
    """Tell whether an agent has looked at a node that is shared."""
    return read_share_label(node) == SHARED and node.find_annotation(INVENTORY_ANNOTATION) is not None


def _refuse_other_plugins(nodes: Sequence[Node], counted: Collection[str]) -> None:
    # What our agents serve is another plugin's until the node says that it is ours.
    ignored = {node.metadata.name: {*counted, *read_advertised(node)} for node in nodes}
    found = {node.metadata.name: find_other_offers(node, ignored[node.metadata.name]) for node in nodes}
    offers = {name: listed for name, listed in found.items() if listed}
    if offers:
        listing = "; ".join(f"{name}: {', '.join(found)}" for name, found in sorted(offers.items()))
        raise ConfigurationError(
            f"another device plugin gives the same cards ({listing}), so two would give one card away",
            next_step="take these nodes out of its DaemonSet (by its node selector, or the label that its operator "
            "reads) and wait until their kubelets have set the resource to 0, five minutes later; leave them out by "
            "accelkit.io/share=false; or name them in node_labels_coexisting, where nobody asks for both",
        )


def _merge(
    metadata: Mapping[str, Mapping[str, str]], patch: Mapping[str, Mapping[str, str | None]]
) -> dict[str, Mapping[str, str]]:
    merged = {kind: {**metadata.get(kind, {}), **patch.get(kind, {})} for kind in {**metadata, **patch}}
    left = {kind: {key: value for key, value in table.items() if value is not None} for kind, table in merged.items()}
    return {kind: table for kind, table in left.items() if table}


def _find_resources_left(node: Node, owned: OwnedMetadata, tables: Iterable[str] = TABLES) -> str | None:
    left = {f"{name}: {n}" for table in tables for name, n in owned.find_resources(node, table).items() if n != "0"}
    return f"its kubelet still has {', '.join(sorted(left))}" if left else None


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
                # A kubelet that has begun to offer the resource again must not lose it.
                operations += [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]
        if not operations:
            return
        try:
            await api.patch(f"{build_node_path(name)}/status", operations, kind="json")
        except ApiError as exc:
            if not (exc.conflict or exc.status == HTTPStatus.UNPROCESSABLE_ENTITY):
                raise
    raise ServiceError(
        f"the status of node {name} changes faster than our resources can be deleted from it", next_step="try again"
    )


async def _confirm_removal(api: ApiClient, names: Collection[str], seconds: float, owned: OwnedMetadata) -> None:
    deadline = time.monotonic() + seconds
    while True:
        back = sorted(name for name, node in (await list_named(api, names)).items() if owned.find(node))
        if back:
            raise ServiceError(
                f"labels, annotations or resources of ours came back on {', '.join(back)}",
                next_step="check that no node agent is left (DaemonSet, static pods), then try again",
            )
        if time.monotonic() >= deadline:
            return
        await asyncio.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
