"""Functions that list the workloads that request a resource: objects that create pods, and pending pods.

Pods of a listed workload are omitted. A pending pod is listed if its owner has a kind that is not listed, such as a
custom resource.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import PODS, build_collection_path
from accelkit.kube.views.metadata import Condition, OwnedMeta, is_true
from accelkit.model.pod import PodSpec

# The collection paths of each kind. The first path that the API server supports is used.
_KINDS: Final = {
    "Deployment": (build_collection_path("apps/v1", "deployments"),),
    "StatefulSet": (build_collection_path("apps/v1", "statefulsets"),),
    "DaemonSet": (build_collection_path("apps/v1", "daemonsets"),),
    "ReplicaSet": (build_collection_path("apps/v1", "replicasets"),),
    "ReplicationController": (build_collection_path("v1", "replicationcontrollers"),),
    "Job": (build_collection_path("batch/v1", "jobs"),),
    "CronJob": (build_collection_path("batch/v1", "cronjobs"), build_collection_path("batch/v1beta1", "cronjobs")),
    "Pod": (PODS,),
}


@dataclass(frozen=True, order=True)
class Workload:
    """An object with a pod template, or a pending pod.

    Attributes:
        requests: the names of the containers and their requested amounts.
    """

    namespace: str
    kind: str
    name: str
    requests: tuple[tuple[str, str], ...]


class _Template(msgspec.Struct):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class _JobSpec(msgspec.Struct):
    template: _Template | None = None


class _JobTemplate(msgspec.Struct):
    spec: _JobSpec = msgspec.field(default_factory=_JobSpec)


class _Spec(PodSpec, rename="camel"):
    template: _Template | None = None
    job_template: _JobTemplate | None = None


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[Condition] | None = None


class _Object(msgspec.Struct):
    metadata: OwnedMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


async def list_workloads_requesting(api: ApiClient, resources: Collection[str]) -> list[Workload]:
    """Return all workloads and unbound pods, sorted, in which a container has a limit for any of these resources.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    found: list[Workload] = []
    for kind, paths in _KINDS.items():
        for each in await _list(api, paths):
            requests = tuple(_find_requests(_find_pod_spec(each), resources))
            if requests and _creates_pods(kind, each):
                found.append(Workload(each.metadata.namespace, kind, each.metadata.name, requests))
    return sorted(found)


async def _list(api: ApiClient, paths: Sequence[str]) -> list[_Object]:
    for path in paths:
        try:
            listed, _ = await list_all(api, path, _Object)
        except ApiError as exc:
            if not exc.not_found or path == paths[-1]:
                raise
        else:
            return listed
    return []


def _creates_pods(kind: str, each: _Object) -> bool:
    if kind == "Pod" and (each.spec.node_name or each.status.phase != "Pending"):
        return False
    ended = any(is_true(each.status.conditions, result) for result in ("Complete", "Failed"))
    return not (kind == "Job" and ended) and _KINDS.keys().isdisjoint(each.metadata.list_controllers())


def _find_pod_spec(each: _Object) -> PodSpec:
    template = each.spec.job_template.spec.template if each.spec.job_template else each.spec.template
    return template.spec if template else each.spec


def _find_requests(spec: PodSpec, resources: Collection[str]) -> Iterator[tuple[str, str]]:
    for container in [*(spec.init_containers or ()), *spec.containers]:
        for name, amount in sorted((container.resources.limits or {}).items()):
            if name in resources and str(amount) != "0":
                yield container.name, str(amount)
