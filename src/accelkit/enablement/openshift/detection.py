"""Detection of OpenShift's APIs in a cluster, based on the API groups that the cluster serves."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.kube.client import ApiClient

_GROUPS: Final = "/apis"


class OpenShift(msgspec.Struct, frozen=True):
    """The features of OpenShift in a cluster.

    Attributes:
        constraints: whether SecurityContextConstraints control the admission of pods.
        machines: whether machines are created from MachineSets.
        autoscaling: whether an operator scales MachineSets.
    """

    constraints: bool
    machines: bool
    autoscaling: bool


class _Group(msgspec.Struct):
    name: str


class _Groups(msgspec.Struct):
    groups: list[_Group]


async def find_openshift(api: ApiClient) -> OpenShift:
    """Return the OpenShift features, based on the API groups that the API server serves.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    served = {each.name for each in msgspec.json.decode(await api.get(_GROUPS), type=_Groups).groups}
    return OpenShift(
        constraints="security.openshift.io" in served,
        machines="machine.openshift.io" in served,
        autoscaling="autoscaling.openshift.io" in served,
    )
