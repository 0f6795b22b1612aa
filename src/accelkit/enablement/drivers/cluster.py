"""Driver plan for a cluster, and writer for the node labels that the plan requires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from accelkit.enablement.drivers.driver_pods import COMPONENT, DriverPod
from accelkit.enablement.drivers.foreign import ForeignDrivers, leave_out
from accelkit.enablement.drivers.images import find_images
from accelkit.enablement.drivers.nodes import DriverNode, select_nodes
from accelkit.enablement.drivers.planning.builds import PlannedBuild, plan_builds
from accelkit.enablement.drivers.planning.mismatch import find_mismatches
from accelkit.enablement.drivers.planning.obsolete import DriverSet, Obsolete, find_obsolete
from accelkit.enablement.drivers.planning.plan import DriverPlan, Problem, list_obstacles, plan_drivers
from accelkit.enablement.drivers.planning.rollout import Outdated, find_outdated
from accelkit.enablement.drivers.reading import list_driver_nodes
from accelkit.enablement.drivers.settings import VendorDriver
from accelkit.install.nodes import for_each_node
from accelkit.kernelcache.registry import RegistrySettings
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_node_path, build_object_path
from accelkit.model.keys import COMPONENT_LABEL, DRIVER_UPGRADE_ANNOTATION

_SELECTOR: Final = {"labelSelector": f"{COMPONENT_LABEL}={COMPONENT}"}
_MODULE_DEFINITION: Final = "modules.kmm.sigs.x-k8s.io"
_DEFINITIONS: Final = build_collection_path("apiextensions.k8s.io/v1", "customresourcedefinitions")


class PlannedCluster(msgspec.Struct, frozen=True):
    """The drivers of a cluster, with the plan for them.

    Attributes:
        plan: the planned DaemonSets, the problems, and the node labels.
        mismatches: drivers and kernels that differ from the desired versions.
        obsolete: DaemonSets that are not in the plan.
        outdated: nodes whose drivers need an upgrade.
        images: whether the images of the planned DaemonSets exist; empty if no registry was queried.
        builds: Jobs that build missing images.
        nodes: the selected nodes.
    """

    plan: DriverPlan
    mismatches: tuple[Problem, ...]
    obsolete: Obsolete
    outdated: tuple[Outdated, ...]
    images: Mapping[str, bool | None]
    builds: tuple[PlannedBuild, ...]
    nodes: tuple[DriverNode, ...]


async def plan_cluster(
    api: ApiClient,
    drivers: Mapping[str, VendorDriver],
    *,
    prefix: str,
    namespace: str,
    in_containers: bool,
    node_selector: Mapping[str, str],
    registries: RegistrySettings | None = None,
    foreign: ForeignDrivers = MappingProxyType({}),
) -> PlannedCluster:
    """Read a cluster and plan its drivers.

    Args:
        api: an open client.
        drivers: the drivers by vendor.
        prefix: the prefix for the names of DaemonSets.
        namespace: the namespace of the DaemonSets.
        in_containers: whether drivers run in DaemonSets; if not, no DaemonSets are planned, and existing DaemonSets are
            obsolete.
        node_selector: labels of the selected nodes.
        registries: the settings of the image registries; None to skip checking images.
        foreign: drivers that other systems load; accelkit does not manage these drivers.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    selected = select_nodes(await list_driver_nodes(api), node_selector)
    nodes, owned = leave_out(selected, foreign, drivers)
    # Only DaemonSets select their nodes by the label. If KMM or the hosts load the drivers, nodes are not labeled.
    waiting = DriverPlan((), tuple(list_obstacles(nodes, drivers)), {})
    plan = plan_drivers(nodes, drivers, prefix) if in_containers else waiting
    plan = msgspec.structs.replace(plan, problems=(*plan.problems, *owned))
    sets, _ = await list_all(api, build_collection_path("apps/v1", "daemonsets", namespace), DriverSet, query=_SELECTOR)
    pods, _ = await list_all(api, build_collection_path("v1", "pods", namespace), DriverPod, query=_SELECTOR)
    mismatches = tuple(find_mismatches(nodes, drivers))
    images = {} if registries is None else await find_images((each.image for each in plan.sets), registries)
    return PlannedCluster(
        plan,
        mismatches,
        find_obsolete(sets, {each.name for each in plan.sets}),
        find_outdated(nodes, plan.sets, pods, mismatches),
        images,
        plan_builds(plan.sets, drivers, images, {node.name: node.system for node in nodes}),
        tuple(nodes),
    )


async def record_kernels(api: ApiClient, labels: Mapping[str, Mapping[str, str]]) -> None:
    """Write the kernel and vendor labels that DaemonSets use to select nodes.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """

    async def write(name: str) -> None:
        await api.patch(build_node_path(name), {"metadata": {"labels": labels[name]}})

    await for_each_node(sorted(labels), write)


def list_recorded(nodes: Iterable[DriverNode]) -> dict[str, dict[str, str]]:
    """Return the driver labels of all nodes that have driver labels or an upgrade record."""
    return {
        node.name: node.recorded for node in nodes if node.recorded or DRIVER_UPGRADE_ANNOTATION in node.annotations
    }


async def clear_nodes(api: ApiClient, recorded: Mapping[str, Mapping[str, str]]) -> None:
    """Remove the driver labels and upgrade records from nodes; leave cordons unchanged.

    Args:
        api: an open client.
        recorded: the result of `list_recorded`.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """

    async def write(name: str) -> None:
        removal = {"labels": dict.fromkeys(recorded[name]), "annotations": {DRIVER_UPGRADE_ANNOTATION: None}}
        await api.patch(build_node_path(name), {"metadata": removal})

    await for_each_node(sorted(recorded), write)


async def has_module_manager(api: ApiClient) -> bool:
    """Return whether the CustomResourceDefinition of KMM exists.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    return await get_if_present(api, build_object_path(_DEFINITIONS, _MODULE_DEFINITION)) is not None
