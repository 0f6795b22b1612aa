"""Read-only survey of the owners of a cluster's nodes through the API server, with a decision about each node."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeVar

import msgspec

from accelkit.enablement.ownership.evidence import Cluster, NodeOwner, find_owners
from accelkit.enablement.ownership.fate import OwnerDecision, judge_nodes
from accelkit.enablement.ownership.objects import DaemonSet, ResourceSlice, list_trusted_namespaces
from accelkit.enablement.ownership.reasons import NEXT_ACTIONS
from accelkit.errors import ApiError, ConfigurationError
from accelkit.install.owned_metadata import read_share_label
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import Listed, list_all
from accelkit.kube.paths import NODES, build_collection_path
from accelkit.kube.views.metadata import PartialObject
from accelkit.model.keys import SHARED
from accelkit.model.pod import Node
from accelkit.vendors.advertised import read_advertised

_NAMESPACES: Final = (build_collection_path("v1", "namespaces"),)
_DAEMON_SETS: Final = (build_collection_path("apps/v1", "daemonsets"),)
_SLICES: Final = tuple(
    build_collection_path(f"resource.k8s.io/{version}", "resourceslices") for version in ("v1", "v1beta2", "v1beta1")
)
_T = TypeVar("_T", bound=Listed)


class OwnerSurvey(msgspec.Struct, frozen=True):
    """The result of a survey.

    Attributes:
        owners: the owners of all nodes, by node.
        judgements: the decisions about the requested nodes, by node.
        notes: sentences about data that could not be read, with the next step.
    """

    owners: dict[str, tuple[NodeOwner, ...]]
    judgements: dict[str, OwnerDecision]
    notes: tuple[str, ...] = ()


async def survey_owners(
    api: ApiClient,
    *,
    nodes: Collection[str] = (),
    adopt: bool = False,
    coexisting: Collection[str] = (),
    counted: Collection[str] = (),
) -> OwnerSurvey:
    """Return the owners of the nodes' cards, and the decisions about the nodes.

    Args:
        api: an open client.
        nodes: names of the nodes to evaluate; empty for all nodes except nodes whose label disables sharing.
        adopt: whether to adopt nodes whose owners currently do not offer cards.
        coexisting: names of nodes that are shared even if other owners offer their cards.
        counted: extended resources whose usage by pods is counted by the extender.

    Raises:
        ConfigurationError: a requested node does not exist.
        ApiError: the API server did not respond, or denied access to nodes.
    """
    listed, _ = await list_all(api, NODES, Node)
    by_name = {node.metadata.name: node for node in listed}
    if unknown := sorted(set(nodes) - by_name.keys()):
        raise ConfigurationError(
            f"cannot find node {', '.join(unknown)}",
            next_step=f"choose from these nodes: {', '.join(sorted(by_name)) or 'none'}",
        )
    namespaces = await _list_if_allowed(api, _NAMESPACES, PartialObject)
    daemon_sets = await _list_if_allowed(api, _DAEMON_SETS, DaemonSet)
    slices = await _list_if_allowed(api, _SLICES, ResourceSlice)
    cluster = Cluster(listed, slices or (), daemon_sets, list_trusted_namespaces(namespaces or ()))
    owners = find_owners(cluster, counted=counted)
    judged = nodes or {name for name, node in by_name.items() if read_share_label(node) != "false"}
    shared = {name for name, node in by_name.items() if read_share_label(node) == SHARED or read_advertised(node)}
    unread = {"namespaces": namespaces, "DaemonSets": daemon_sets, "ResourceSlices": slices}
    notes = [
        f"OwnersUnknown: the API server refuses to list {kind}, so some owners of nodes may be unknown; "
        f"{NEXT_ACTIONS['OwnersUnknown']}"
        for kind, found in unread.items()
        if found is None
    ]
    judgements = judge_nodes({name: owners[name] for name in judged}, shared=shared, adopt=adopt, coexisting=coexisting)
    return OwnerSurvey(owners, judgements, tuple(notes))


async def _list_if_allowed(api: ApiClient, paths: Collection[str], type_: type[_T]) -> list[_T] | None:
    """Return the collection at the first path that the API server serves, or an empty one; None if access is denied."""
    for path in paths:
        try:
            found, _ = await list_all(api, path, type_)
        except ApiError as exc:
            if exc.not_found:
                continue
            if exc.forbidden:
                return None
            raise
        return found
    return []
