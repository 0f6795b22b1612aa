"""Functions that wait until all pods of a Deployment or DaemonSet run with its current template."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import msgspec

from accelkit.errors import WaitError
from accelkit.kube.client import ApiClient
from accelkit.kube.lease import LeaseName, read_holder
from accelkit.kube.listing import list_all
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.kube.views.pod import ExplainedPod
from accelkit.model.keys import NAME_LABEL
from accelkit.texts import list_some

PLURALS: Final = {"DaemonSet": "daemonsets", "Deployment": "deployments"}
_POLL_SECONDS: Final = 1.0


class _Metadata(msgspec.Struct):
    generation: int = 0


class _Spec(msgspec.Struct):
    replicas: int = 1


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    # The fields of a DaemonSet.
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    # The fields of a Deployment.
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0


class _Workload(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class Rollout(msgspec.Struct, frozen=True):
    """The number of desired pods, and the number of available pods with the current template.

    `observed` is false if the status is older than the template. `holder` is the identity in the Lease. It is empty if
    no Lease was requested.
    """

    desired: int
    done: int
    observed: bool
    holder: str = ""

    @property
    def complete(self) -> bool:
        """Whether the workload is rolled out."""
        return self.observed and self.done == self.desired


async def wait_for_rollout(
    api: ApiClient, kind: str, namespace: str, name: str, *, seconds: float, lease: str = ""
) -> Rollout:
    """Wait until a workload is rolled out. The label app.kubernetes.io/name of its pods must equal its name.

    Args:
        api: an open client.
        kind: DaemonSet or Deployment.
        namespace: the namespace of the workload.
        name: the name of the workload.
        seconds: the maximum time to wait.
        lease: the name of the Lease that a pod of the workload must hold; empty if no Lease is required.

    Raises:
        WaitError: when the timeout expired, the workload was not rolled out, or no pod of the workload held the Lease.
        ApiError: the API server rejected the request or did not respond.
    """
    deadline = time.monotonic() + seconds
    path = build_object_path(build_collection_path("apps/v1", PLURALS[kind], namespace), name)
    while True:
        answer = await get_if_present(api, path)
        found = None if answer is None else _judge(kind, msgspec.json.decode(answer, type=_Workload))
        complete = found is not None and found.complete
        holder = await _find_holder(api, namespace, name, lease) if complete and lease else ""
        if found is not None and complete and (holder or not lease):
            return msgspec.structs.replace(found, holder=holder)
        if time.monotonic() >= deadline:
            of = f"{kind} {namespace}/{name}"
            if complete:
                held = f"Lease {namespace}/{lease}"
                sentence, step = f"no pod of {of} holds {held}", "check the logs of its pods"
                raise WaitError(seconds, f"a pod of {of} to hold {held}", sentence, next_step=step)
            waiting = f"{of} to exist" if found is None else await _describe(api, found, of, namespace, name)
            raise WaitError(seconds, waiting, f"{of} is not rolled out", next_step="check its pods and their events")
        await asyncio.sleep(_POLL_SECONDS)


def _judge(kind: str, found: _Workload) -> Rollout:
    status = found.status
    observed = status.observed_generation >= found.metadata.generation
    if kind == "DaemonSet":
        done = min(status.updated_number_scheduled, status.number_available)
        return Rollout(status.desired_number_scheduled, done, observed)
    # If there are too many replicas, pods with the previous template are still running.
    done = 0 if status.replicas > found.spec.replicas else min(status.updated_replicas, status.available_replicas)
    return Rollout(found.spec.replicas, done, observed)


async def _find_holder(api: ApiClient, namespace: str, name: str, lease: str) -> str:
    """Return the identity in a Lease if it refers to a pod of the workload; otherwise, return an empty string."""
    holder = await read_holder(api, LeaseName(namespace, lease))
    if holder is None:
        return ""
    # The identity of kube-scheduler is the name of its pod, followed by `_` and a UID.
    names = {pod.metadata.name for pod in await _list_pods(api, namespace, name)}
    return holder if holder.partition("_")[0] in names else ""


async def _list_pods(api: ApiClient, namespace: str, name: str) -> list[ExplainedPod]:
    query = {"labelSelector": f"{NAME_LABEL}={name}"}
    return (await list_all(api, build_collection_path("v1", "pods", namespace), ExplainedPod, query=query))[0]


async def _describe(api: ApiClient, found: Rollout, of: str, namespace: str, name: str) -> str:
    pods = await _list_pods(api, namespace, name)
    waiting = sorted(pod.spec.node_name or f"{pod.metadata.name} (no node yet)" for pod in pods if not pod.ready)
    where = f": {list_some(waiting)}" if waiting else ""
    return f"{found.desired - found.done} of {found.desired} pods of {of}{where}"
