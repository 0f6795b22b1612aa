"""Reads from the API server what shows who owns the nodes, and judges them; writes nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeVar

import msgspec

from accelkit.enablement.ownership.evidence import Cluster, NodeOwner, find_owners
from accelkit.enablement.ownership.fate import Judgement, judge_nodes
from accelkit.enablement.ownership.objects import DaemonSet, Namespace, ResourceSlice, list_trusted_namespaces
from accelkit.enablement.ownership.reasons import NOT_ALL_READ, REASONS
from accelkit.errors import ApiError, ConfigurationError
from accelkit.install.owned_metadata import SHARED, read_share_label
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import Listed, list_all
from accelkit.kube.paths import NODES, build_collection_path
from accelkit.model.pod import Node
from accelkit.vendors.advertised import read_advertised

_NAMESPACES: Final = (build_collection_path("v1", "namespaces"),)
_DAEMON_SETS: Final = (build_collection_path("apps/v1", "daemonsets"),)
_SLICES: Final = tuple(
    build_collection_path(f"resource.k8s.io/{version}", "resourceslices") for version in ("v1", "v1beta2", "v1beta1")
)
_T = TypeVar("_T", bound=Listed)


class OwnerSurvey(msgspec.Struct, frozen=True):
    """What a look at a cluster showed.

    Attributes:
        owners: by node, of all nodes.
        judgements: by node, of those that were asked for.
        notes: what could not be read, as sentences with the next step.
    """

    owners: dict[str, tuple[NodeOwner, ...]]
    judgements: dict[str, Judgement]
    notes: tuple[str, ...] = ()


async def survey_owners(
    api: ApiClient,
    *,
    nodes: Collection[str] = (),
    adopt: bool = False,
    coexisting: Collection[str] = (),
    counted: Collection[str] = (),
) -> OwnerSurvey:
    """Find who owns the cards of nodes, and what becomes of the nodes.

    Args:
        api: an open client.
        nodes: names of those to judge; empty for all but those labelled not to be shared.
        adopt: whether nodes are taken over whose owners give no cards now.
        coexisting: names of nodes that are shared whatever others give there.
        counted: extended resources of which the extender counts what pods hold.

    Raises:
        ConfigurationError: a named node does not exist.
        ApiError: the API server did not answer, or does not let nodes be listed.
    """
    listed, _ = await list_all(api, NODES, Node)
    by_name = {node.metadata.name: node for node in listed}
    if unknown := sorted(set(nodes) - by_name.keys()):
        raise ConfigurationError(
            f"there is no node {', '.join(unknown)}",
            next_step=f"choose among {', '.join(sorted(by_name)) or 'no nodes'}",
        )
    namespaces = await _list_if_allowed(api, _NAMESPACES, Namespace)
    daemon_sets = await _list_if_allowed(api, _DAEMON_SETS, DaemonSet)
    slices = await _list_if_allowed(api, _SLICES, ResourceSlice)
    cluster = Cluster(listed, slices or (), daemon_sets, list_trusted_namespaces(namespaces or ()))
    owners = find_owners(cluster, counted=counted)
    judged = nodes or {name for name, node in by_name.items() if read_share_label(node) != "false"}
    shared = {name for name, node in by_name.items() if read_share_label(node) == SHARED or read_advertised(node)}
    unread = {"namespaces": namespaces, "DaemonSets": daemon_sets, "ResourceSlices": slices}
    notes = [
        f"{NOT_ALL_READ}: the API server does not let {kind} be listed, so that not all owners of nodes are known; "
        f"{REASONS[NOT_ALL_READ]}"
        for kind, found in unread.items()
        if found is None
    ]
    judgements = judge_nodes({name: owners[name] for name in judged}, shared=shared, adopt=adopt, coexisting=coexisting)
    return OwnerSurvey(owners, judgements, tuple(notes))


async def _list_if_allowed(api: ApiClient, paths: Collection[str], type_: type[_T]) -> list[_T] | None:
    """Return a collection by the first path that the API server knows; empty where none, None where refused."""
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
