"""Functions that write, compare and delete the record of the resources for which all schedulers call the extender.

The installation configures the schedulers before it adds a resource to the record, and after it removes a resource from
the record. Node agents offer a resource only while the record contains it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from accelkit.errors import ManagedResourcesError
from accelkit.install.nodes import list_nodes
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.objects import delete_if_present, get_if_present, patch_or_create
from accelkit.kube.paths import build_collection_path, build_config_maps_path, build_object_path
from accelkit.model.inventory import read_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.managed_resources import (
    MANAGED_RESOURCES_LABELS,
    MANAGED_RESOURCES_NAME,
    ManagedResources,
    decode_managed_resources,
    encode_managed_resources,
)
from accelkit.model.pod import ConfigMap, Node, Pod
from accelkit.vendors.advertised import read_advertised
from accelkit.vendors.dialects import load_own_dialect, load_usable_dialects

_SCHEDULER: Final = "kube-scheduler"
_INCOMPLETE: Final = "this run did not configure every kube-scheduler; run site.yml without --limit and --tags"


@dataclass(frozen=True)
class Management:
    """The recorded and offered resources in a cluster, and the change to the record.

    Attributes:
        changed: whether the record was written or deleted. In check mode, whether it would be written or deleted.
        recorded: the resources in the previous record; None if it does not exist or is invalid.
        resources: the resources in the current record.
        offered: for each resource, the sorted names of the nodes that offer it through a node agent.
        former: resources that are recorded or offered, but that the caller no longer requests.
        former_dialects: the dialects whose pods request these resources.
        problem: a message that lists each kube-scheduler that might not call the extender, so that no resource is
            added; empty if there is none.
    """

    changed: bool
    recorded: Sequence[str] | None
    resources: Sequence[str]
    offered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    former: Sequence[str] = ()
    former_dialects: Sequence[str] = ()
    problem: str = ""


async def record_managed(
    api: ApiClient,
    *,
    namespace: str,
    resources: Collection[str],
    schedulers: Collection[str] | None = None,
    complete: bool = True,
    check: bool = False,
) -> Management:
    """Write the resources to the record. Do not add resources if a scheduler was not configured.

    Args:
        api: an open client.
        namespace: the namespace of the record.
        resources: the resources for which the schedulers were configured.
        schedulers: the names of the nodes whose kube-scheduler was configured. If it is None, they are not compared
            with the cluster.
        complete: whether all known schedulers were configured. If it is false, no resource is added.
        check: whether to skip all writes.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    found = await _read_state(api, namespace, resources)
    desired = tuple(sorted(set(resources)))
    added = set(desired) - {*(found.recorded or ())}
    problem = _INCOMPLETE if not complete else await _find_uncovered(api, schedulers)
    new = tuple(sorted(set(desired) - added)) if problem else desired
    changed = found.recorded is None or tuple(found.recorded) != new
    if changed and not check:
        data = encode_managed_resources(ManagedResources(new))
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": MANAGED_RESOURCES_NAME, "labels": MANAGED_RESOURCES_LABELS},
            "data": data,
        }
        patch = {"metadata": {"labels": MANAGED_RESOURCES_LABELS}, "data": data}
        await patch_or_create(api, build_config_maps_path(namespace), MANAGED_RESOURCES_NAME, patch, body)
    return replace(found, changed=changed, resources=new, problem=problem)


async def delete_record(api: ApiClient, *, namespace: str, check: bool = False) -> Management:
    """Delete the record, so that node agents do not offer resources to new pods.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    path = _build_path(namespace)
    present = await get_if_present(api, path) is not None
    if present and not check:
        await delete_if_present(api, path)
    return Management(changed=present, recorded=None, resources=())


async def _read_state(api: ApiClient, namespace: str, resources: Collection[str]) -> Management:
    recorded = await _read_record(api, namespace)
    offered: dict[str, list[str]] = {}
    native = load_own_dialect("native").resources
    for name, node in sorted((await list_nodes(api)).items()):
        allocatable, withheld = node.status.allocatable or {}, _read_withheld(node)
        for resource in {native.memory, native.cards, *read_advertised(node)}:
            if allocatable.get(resource, "0") != "0" and resource not in withheld:
                offered.setdefault(resource, []).append(name)
    former = sorted({*(recorded or ()), *offered} - set(resources))
    dialects = [each.name for each in load_usable_dialects() if set(each.resources.requestable) & set(former)]
    return Management(
        changed=False,
        recorded=recorded,
        resources=(),
        offered=dict(sorted(offered.items())),
        former=former,
        former_dialects=sorted(dialects),
    )


def _read_withheld(node: Node) -> Collection[str]:
    """Return the resources for which a node lists only devices that are already allocated to pods."""
    inventory = read_inventory(node.find_annotation(INVENTORY_ANNOTATION))
    return () if inventory is None else inventory.withheld or ()


async def _read_record(api: ApiClient, namespace: str) -> Sequence[str] | None:
    text = await get_if_present(api, _build_path(namespace))
    if text is None:
        return None
    try:
        return decode_managed_resources(msgspec.json.decode(text, type=ConfigMap).data or {}).resources
    except ManagedResourcesError:
        # The caller overwrites an invalid record.
        return None


async def _find_uncovered(api: ApiClient, schedulers: Collection[str] | None) -> str:
    """Return a message that lists each known kube-scheduler that was not configured; empty if all were configured.

    Only schedulers that run as pods can be detected through the API server.
    """
    if schedulers is None:
        return ""
    pods, _ = await list_all(api, build_collection_path("v1", "pods", "kube-system"), Pod)
    running = {
        pod.spec.node_name
        for pod in pods
        if pod.metadata.name == f"{_SCHEDULER}-{pod.spec.node_name}" and not pod.terminal
    }
    if missing := sorted(running - set(schedulers)):
        return (
            f"kube-scheduler also runs on {', '.join(missing)}, which this run did not configure; "
            "add the host to the group accelkit_control_plane"
        )
    return ""


def _build_path(namespace: str) -> str:
    return build_object_path(build_config_maps_path(namespace), MANAGED_RESOURCES_NAME)
