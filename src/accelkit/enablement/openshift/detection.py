"""Tells by the groups of its API what of OpenShift a cluster has; where none is served, nothing is done about it."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.kube.client import ApiClient

_GROUPS: Final = "/apis"


class OpenShift(msgspec.Struct, frozen=True):
    """What of OpenShift is there.

    Attributes:
        constraints: pods are admitted by SecurityContextConstraints.
        machines: machines are made from MachineSets.
        autoscaling: its operator scales MachineSets.
    """

    constraints: bool
    machines: bool
    autoscaling: bool


class _Group(msgspec.Struct):
    name: str


class _Groups(msgspec.Struct):
    groups: list[_Group]


async def find_openshift(api: ApiClient) -> OpenShift:
    """Ask the API server for the groups that it serves.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    served = {each.name for each in msgspec.json.decode(await api.get(_GROUPS), type=_Groups).groups}
    return OpenShift(
        constraints="security.openshift.io" in served,
        machines="machine.openshift.io" in served,
        autoscaling="autoscaling.openshift.io" in served,
    )
