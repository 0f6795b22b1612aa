"""Writes the steps of an upgrade to its node: record and cordon in one patch, which a changed node refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.reading import read_driver_node
from accelkit.enablement.drivers.reasons import REASONS
from accelkit.enablement.drivers.upgrading.record import Step, write_record
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_node_path
from accelkit.model.keys import DRIVER_UPGRADE_ANNOTATION

_TRIES: Final = 10
_SENTENCES: Final = {
    "NodeNotReady": "is not ready, so nothing is done there",
    "RecordUnreadable": f"has an annotation {DRIVER_UPGRADE_ANNOTATION} that cannot be read, or of a newer release",
    "UncordonedByHand": "was uncordoned amid the upgrade of its driver",
    "Interrupted": "is being upgraded by another run, or the record of this one is gone",
}


async def take_step(
    api: ApiClient, name: str, decide: Callable[[DriverNode], Step], *, check: bool = False
) -> tuple[DriverNode, Step]:
    """Decide a step of a node's upgrade and write it; decides again where the node has changed meanwhile.

    Args:
        api: an open client.
        name: of the node.
        decide: one of the functions of `upgrading.record`, bound to all but the node.
        check: write nothing.

    Returns:
        The node before, and the step.

    Raises:
        ServiceError: the step is refused, or the node changes faster than it can be written.
        ApiError: the API server refused or did not answer.
    """
    for _ in range(_TRIES):
        node = await read_driver_node(api, name)
        step = decide(node)
        if step.refusal:
            raise ServiceError(f"node {name} {_SENTENCES[step.refusal]}", next_step=REASONS[step.refusal])
        if check or not step.changed:
            return node, step
        try:
            await api.patch(build_node_path(name), _build_patch(node, step))
        except ApiError as exc:
            if not exc.conflict:
                raise
        else:
            return node, step
    raise ServiceError(f"node {name} changes faster than it can be written", next_step="try again")


def _build_patch(node: DriverNode, step: Step) -> dict[str, Any]:
    text = None if step.record is None else write_record(step.record)
    # Decided for this version of the node: who cordons it meanwhile must not lose that.
    patch: dict[str, Any] = {
        "metadata": {"resourceVersion": node.resource_version, "annotations": {DRIVER_UPGRADE_ANNOTATION: text}}
    }
    if step.unschedulable is not None:
        # A merge patch takes the field away by null, as kubectl does.
        patch["spec"] = {"unschedulable": True if step.unschedulable else None}
    return patch
