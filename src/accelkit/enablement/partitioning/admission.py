"""Test of whether the API server adds the tolerations that pods need, based on a dry run.

The admission plugin ExtendedResourceToleration adds a toleration for each extended resource that a pod requests, with
the resource's name as the key. It is disabled by default. The test sends a pod that
requests one resource as a dry run and reads the response, which also includes tolerations from webhooks and policies.
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
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, PODS, build_collection_path
from accelkit.kube.views.scheduling import SchedulingPod

_DAEMON_SETS: Final = build_collection_path("apps/v1", "daemonsets")
_NAME: Final = "accelkit-toleration-probe"
# The status codes that quotas, limits, policies and webhooks return when they reject a pod. Other errors are unrelated
# to the pod.
_REFUSED: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)


class Tolerance(msgspec.Struct, frozen=True):
    """The effects of the taints on pods.

    Attributes:
        repelled: for each resource, the keys of the taints that a pod with a request for the resource does not
            tolerate.
        unknown: for each resource, the reason why the effect is unknown.
        intolerant: the objects that the taints exclude but should not exclude.
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
    card_resources: Collection[str],
    namespace: str,
) -> Tolerance:
    """Return the effects of taints on pods; the cluster is not changed.

    Args:
        api: an open client.
        keys: the keys of the taints.
        tainted: names of the nodes with these taints.
        resources: the resources to test, each with a separate pod.
        card_resources: the resources that pods use to request cards.
        namespace: the namespace of the test pods.

    Raises:
        ApiError: the API server did not respond, or denied access to nodes, pods or DaemonSets.
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
    pods, _ = await list_all(api, PODS, SchedulingPod)
    found = find_intolerant(daemon_sets, pods, nodes, keys=keys, tainted=tainted, resources=card_resources)
    return Tolerance(repelled, unknown, tuple(found))


async def _probe(api: ApiClient, resource: str, keys: Sequence[str], namespace: str) -> tuple[str, ...]:
    path = build_collection_path("v1", "pods", namespace)
    answer = await api.post(path, _build_pod(resource), query={"dryRun": "All"})
    return list_missing(msgspec.json.decode(answer, type=SchedulingPod).spec, keys)


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
