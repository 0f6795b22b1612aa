"""Writer for a node's upgrade steps. One patch contains the record and the cordon; it fails if the node has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.reading import read_driver_node
from accelkit.enablement.drivers.reasons import NEXT_ACTIONS, Refusal
from accelkit.enablement.drivers.upgrading.record import UpgradeStep, write_record
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_node_path
from accelkit.model.keys import DRIVER_UPGRADE_ANNOTATION

_TRIES: Final = 10
_SENTENCES: Final[dict[Refusal, str]] = {
    "NodeNotReady": "the node is not ready",
    "RecordUnreadable": f"its annotation {DRIVER_UPGRADE_ANNOTATION} is unreadable, or was written by a newer release",
    "UncordonedByHand": "the node was uncordoned during the upgrade",
    "Interrupted": "another run is upgrading it, or the record of this run is missing",
}


async def take_step(
    api: ApiClient, name: str, decide: Callable[[DriverNode], UpgradeStep], *, check: bool = False
) -> tuple[DriverNode, UpgradeStep]:
    """Decide on a step of a node's upgrade and write it; decide again if the node has changed in the meantime.

    Args:
        api: an open client.
        name: the name of the node.
        decide: a function from `upgrading.record` that decides on the step for the node.
        check: whether to skip the write.

    Returns:
        The node before the step, and the step.

    Raises:
        ServiceError: the step is not permitted, or the node changes too often to be written.
        ApiError: the API server rejected the request or did not respond.
    """
    for _ in range(_TRIES):
        node = await read_driver_node(api, name)
        step = decide(node)
        if step.refusal:
            raise ServiceError(
                f"cannot upgrade the driver of node {name}: {_SENTENCES[step.refusal]}",
                next_step=NEXT_ACTIONS[step.refusal],
            )
        if check or not step.changed:
            return node, step
        try:
            await api.patch(build_node_path(name), _build_patch(node, step))
        except ApiError as exc:
            if not exc.conflict:
                raise
        else:
            return node, step
    raise ServiceError(f"cannot write node {name}: it changes too often", next_step="try again")


def _build_patch(node: DriverNode, step: UpgradeStep) -> dict[str, Any]:
    text = None if step.record is None else write_record(step.record)
    # The patch contains the resource version for which the step was decided, so that a cordon set in the meantime is
    # not lost.
    patch: dict[str, Any] = {
        "metadata": {"resourceVersion": node.resource_version, "annotations": {DRIVER_UPGRADE_ANNOTATION: text}}
    }
    if step.unschedulable is not None:
        # A null value in a merge patch removes the field, as kubectl does.
        patch["spec"] = {"unschedulable": True if step.unschedulable else None}
    return patch
