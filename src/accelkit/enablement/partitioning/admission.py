"""Finds by a pod that is never made whether the API server gives pods the tolerations that they need.

Its admission plugin ExtendedResourceToleration adds, for each extended resource that a pod asks for, a toleration of
taints whose key is that resource's name. It is off unless the API server was told. So a pod that asks for one resource
alone is sent as a dry run, and what comes back is read: that also finds webhooks and policies that add tolerations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from accelkit.enablement.ownership.objects import DaemonSet
from accelkit.enablement.partitioning.changes import TaintedNode
from accelkit.enablement.partitioning.tolerations import Intolerant, find_intolerant, list_missing
from accelkit.errors import ApiError
from accelkit.extender.groups.objects import GroupPod
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, PODS, build_collection_path

_DAEMON_SETS: Final = build_collection_path("apps/v1", "daemonsets")
_NAME: Final = "accelkit-toleration-probe"
# What quotas, limits, policies and webhooks answer; everything else is no answer.
_REFUSED: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)


class Tolerance(msgspec.Struct, frozen=True):
    """What the taints let in.

    Attributes:
        repelled: by resource, the keys of the taints that a pod which asks for it alone does not bear.
        unknown: by resource, why that could not be found.
        intolerant: what the taints keep out and should not.
    """

    repelled: dict[str, tuple[str, ...]]
    unknown: dict[str, str]
    intolerant: tuple[Intolerant, ...]


async def check_tolerations(
    api: ApiClient,
    *,
    keys: Sequence[str],
    tainted: Collection[str],
    resources: Sequence[str],
    asking: Collection[str],
    namespace: str,
) -> Tolerance:
    """Find what taints keep out; changes nothing.

    Args:
        api: an open client.
        keys: of the taints.
        tainted: names of the nodes with these taints.
        resources: for which a pod is asked for.
        asking: resources by which pods ask for cards.
        namespace: in which a pod is asked for, and not made.

    Raises:
        ApiError: the API server did not answer, or does not let nodes, pods or DaemonSets be listed.
    """
    repelled: dict[str, tuple[str, ...]] = {}
    unknown: dict[str, str] = {}
    for resource in resources:
        try:
            missing = await _probe(api, resource, keys, namespace)
        except ApiError as exc:
            if exc.status not in _REFUSED:
                raise
            unknown[resource] = str(exc)
            continue
        if missing:
            repelled[resource] = missing
    nodes, _ = await list_all(api, NODES, TaintedNode)
    daemon_sets, _ = await list_all(api, _DAEMON_SETS, DaemonSet)
    pods, _ = await list_all(api, PODS, GroupPod)
    found = find_intolerant(daemon_sets, pods, nodes, keys=keys, tainted=tainted, resources=asking)
    return Tolerance(repelled, unknown, tuple(found))


async def _probe(api: ApiClient, resource: str, keys: Sequence[str], namespace: str) -> tuple[str, ...]:
    path = build_collection_path("v1", "pods", namespace)
    answer = await api.post(path, _build_pod(resource), query={"dryRun": "All"})
    return list_missing(msgspec.json.decode(answer, type=GroupPod).spec, keys)


def _build_pod(resource: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _NAME},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "probe",
                    "image": "accelkit.io/never-pulled",
                    "resources": {"limits": {resource: "1", "cpu": "1m", "memory": "1Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }
