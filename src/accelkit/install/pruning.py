"""Deletion of objects from earlier installations that are no longer needed. The objects are found by their labels.

All objects that the playbooks apply have accelkit's labels. Therefore, objects from earlier runs can be found without
the variables of these runs. Labels in users' namespaces are ignored. Otherwise, a user could block every run with an
object that cannot be deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from accelkit.errors import ApiError, ServiceError, raise_first
from accelkit.gkm.names import POLICY_API
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.objects import delete_if_present, get_if_present
from accelkit.kube.ownership import build_selector, find_namespaces
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.kube.views.metadata import PartialObject
from accelkit.model.keys import COMPONENT_LABEL
from accelkit.model.object_meta import ObjectMeta

_POLL_SECONDS: Final = 1.0
# With this policy, the API server deletes a workload after its pods.
_FOREGROUND: Final = {"propagationPolicy": "Foreground"}


class Kind(msgspec.Struct, frozen=True):
    """A kind of object that the playbooks apply.

    Attributes:
        name: the kind, for example `Deployment`.
        plural: the plural name in URL paths.
        versions: the API versions of the kind, newest first.
    """

    name: str
    plural: str
    versions: tuple[str, ...]


_QUOTA: Final = "ResourceQuota"
_RBAC: Final = ("rbac.authorization.k8s.io/v1",)
_ADMISSION: Final = ("admissionregistration.k8s.io/v1",)
_MONITORING: Final = ("monitoring.coreos.com/v1",)
_LEASE: Final = Kind("Lease", "leases", ("coordination.k8s.io/v1",))
_NAMESPACE: Final = Kind("Namespace", "namespaces", ("v1",))
# The order of deletion. Objects that running workloads need, and policies that restrict permissions, are deleted last.
_STEPS: Final = (
    (
        Kind("CronJob", "cronjobs", ("batch/v1", "batch/v1beta1")),
        Kind("DaemonSet", "daemonsets", ("apps/v1",)),
        Kind("Deployment", "deployments", ("apps/v1",)),
        Kind("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", _ADMISSION),
        Kind("MachineAutoscaler", "machineautoscalers", ("autoscaling.openshift.io/v1beta1",)),
        Kind("ClusterAutoscaler", "clusterautoscalers", ("autoscaling.openshift.io/v1",)),
    ),
    (
        _LEASE,
        Kind("NetworkPolicy", "networkpolicies", ("networking.k8s.io/v1",)),
        Kind("PodMonitor", "podmonitors", _MONITORING),
        Kind("PrometheusRule", "prometheusrules", _MONITORING),
        Kind("PodDisruptionBudget", "poddisruptionbudgets", ("policy/v1", "policy/v1beta1")),
        Kind("Service", "services", ("v1",)),
        Kind("ConfigMap", "configmaps", ("v1",)),
        Kind("Secret", "secrets", ("v1",)),
        Kind(_QUOTA, "resourcequotas", ("v1",)),
        Kind("PriorityClass", "priorityclasses", ("scheduling.k8s.io/v1",)),
        Kind("RoleBinding", "rolebindings", _RBAC),
        Kind("Role", "roles", _RBAC),
        Kind("ClusterRoleBinding", "clusterrolebindings", _RBAC),
        Kind("ClusterRole", "clusterroles", _RBAC),
        Kind("SecurityContextConstraints", "securitycontextconstraints", ("security.openshift.io/v1",)),
        Kind("MachineSet", "machinesets", ("machine.openshift.io/v1beta1",)),
    ),
    (
        Kind("ServiceAccount", "serviceaccounts", ("v1",)),
        Kind("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", _ADMISSION),
    ),
    (
        Kind("ValidatingAdmissionPolicy", "validatingadmissionpolicies", _ADMISSION),
        Kind("SignerPolicy", "signerpolicies", (POLICY_API,)),
        _NAMESPACE,
    ),
)
KINDS: Final = tuple(kind for step in _STEPS for kind in step)
# CustomResourceDefinitions are never deleted, because users have created objects of these kinds.
_DEFINITION: Final = Kind("CustomResourceDefinition", "customresourcedefinitions", ("apiextensions.k8s.io/v1",))


class ObjectKey(msgspec.Struct, frozen=True, order=True):
    """The key of an object, without its API version."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


class _Definition(msgspec.Struct):
    kind: str
    metadata: ObjectMeta


@dataclass(frozen=True)
class _Found:
    path: str
    component: str


def list_keys(definitions: Sequence[Mapping[str, object]]) -> frozenset[ObjectKey]:
    """Return the keys of the objects in manifests."""
    given = msgspec.convert(definitions, list[_Definition])
    return frozenset(ObjectKey(each.kind, each.metadata.namespace, each.metadata.name) for each in given)


@dataclass(frozen=True)
class Pruned:
    """The result of a call to `prune`.

    Attributes:
        deleted: the deleted objects, sorted. In check mode, the objects that would be deleted.
        namespaces: the namespaces that were searched, sorted.
        components: the components of these objects and of CustomResourceDefinitions, sorted. CustomResourceDefinitions
            are never deleted.
    """

    deleted: list[ObjectKey]
    namespaces: list[str]
    components: list[str] = field(default_factory=list)


async def prune(
    api: ApiClient,
    *,
    component: str,
    keep: Collection[ObjectKey],
    timeout_seconds: float,
    namespaces: Collection[str] = (),
    check: bool = False,
) -> Pruned:
    """Delete the objects of a component, except the objects to keep, and wait until they no longer exist.

    If a Deployment is deleted, the Lease for leader election among its replicas is also deleted.

    Args:
        api: an open client.
        component: the value of COMPONENT_LABEL; empty for all objects with OWNER_LABELS.
        keep: the objects to keep.
        timeout_seconds: the maximum time to wait for the deletion.
        namespaces: additional namespaces to search. The namespaces from `find_namespaces` and the namespaces of the
            objects to keep are always searched.
        check: whether to skip all deletions.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ServiceError: an object still exists after the timeout.
    """
    searched = await find_namespaces(api, {*namespaces, *(key.namespace for key in keep)})
    found = await _find(api, component, keep, searched)
    defined = await _list(api, _DEFINITION, build_selector(component))
    if not check:
        deadline = time.monotonic() + timeout_seconds
        for step in _STEPS:
            batch = {key: each for key, each in found.items() if key.kind in {kind.name for kind in step}}
            with raise_first(Exception):
                async with asyncio.TaskGroup() as group:
                    for key, each in batch.items():
                        group.create_task(_delete(api, key, each.path, deadline))
    components = {each.component for each in (*found.values(), *defined.values())} - {""}
    return Pruned(sorted(found), sorted(searched), sorted(components))


async def _find(
    api: ApiClient, component: str, keep: Collection[ObjectKey], namespaces: Collection[str]
) -> Mapping[ObjectKey, _Found]:
    """Return the objects to delete."""
    selector = build_selector(component)
    with raise_first(Exception):
        async with asyncio.TaskGroup() as group:
            lists = [group.create_task(_list(api, kind, selector)) for kind in KINDS]
    found = {
        key: each
        for listed in lists
        for key, each in listed.result().items()
        if key not in keep and _is_trusted(key, namespaces)
    }
    leases = [ObjectKey(_LEASE.name, key.namespace, key.name) for key in found if key.kind == "Deployment"]
    for key in leases:
        path = build_object_path(build_collection_path(_LEASE.versions[0], _LEASE.plural, key.namespace), key.name)
        if await get_if_present(api, path) is not None:
            found[key] = _Found(path, component)
    return found


def _is_trusted(key: ObjectKey, namespaces: Collection[str]) -> bool:
    """Return whether accelkit has set the labels of an object. Quotas are trusted, because users cannot write them."""
    return key.kind == _QUOTA or (key.name if key.kind == _NAMESPACE.name else key.namespace) in {"", *namespaces}


async def _list(api: ApiClient, kind: Kind, selector: str) -> Mapping[ObjectKey, _Found]:
    for version in kind.versions:
        try:
            path = build_collection_path(version, kind.plural)
            items, _ = await list_all(api, path, PartialObject, query={"labelSelector": selector})
        except ApiError as exc:
            if not exc.not_found:
                raise
            continue
        return {
            ObjectKey(kind.name, each.metadata.namespace, each.metadata.name): _Found(
                build_object_path(
                    build_collection_path(version, kind.plural, each.metadata.namespace), each.metadata.name
                ),
                (each.metadata.labels or {}).get(COMPONENT_LABEL, ""),
            )
            for each in items
        }
    return {}


async def _delete(api: ApiClient, key: ObjectKey, path: str, deadline: float) -> None:
    await delete_if_present(api, path, _FOREGROUND)
    while await get_if_present(api, path) is not None:
        if time.monotonic() > deadline:
            raise ServiceError(
                f"cannot delete {key}: it still exists after the timeout",
                next_step="check its finalizers and pods, and run the playbook again",
            )
        await asyncio.sleep(_POLL_SECONDS)
