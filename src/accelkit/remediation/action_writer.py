"""Execution of actions. Each action is a single request, and only the leader sends requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus

from accelkit.errors import ApiError, ConfigurationError, NotLeadingError
from accelkit.kube.client import ApiClient
from accelkit.kube.disruptions.evictions import evict
from accelkit.kube.events import Events, ObjectReference
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.model.card import PCI_ADDRESS
from accelkit.remediation.deciding.actions import (
    Action,
    CreateJob,
    Evict,
    NodeEvent,
    PodEvent,
    WriteCondition,
    WriteNode,
)
from accelkit.remediation.deciding.views import RemediationNode
from accelkit.remediation.node_writes import write_node
from accelkit.remediation.nodes import NodeObject
from accelkit.remediation.resets import Reset, build_reset_job

log = logging.getLogger(__name__)

Count = Callable[[str, str], None]
_NAMES: Mapping[type[Action], str] = {  # These are values of a metric label.
    CreateJob: "reset",
    Evict: "evict",
    NodeEvent: "tell-node",
    PodEvent: "tell-pod",
    WriteCondition: "condition",
    WriteNode: "node",
}


def name_action(action: Action) -> str:
    """Return the name that metrics and logs use for an action."""
    return _NAMES[type(action)]


class ActionWriter:
    """Executor of actions on the API server.

    Args:
        api: an open client. Its timeout is shorter than a term of the leader.
        events: the event recorder.
        namespace: the namespace of the Jobs.
        reset_job: the name of the CronJob that contains the Job template; empty for none.
        job_seconds: the maximum duration of a Job if its template does not contain a deadline.
        leads: a function that returns whether this replica is currently allowed to write.
        on_node: a callback that receives each node that was changed by a write.
        count: a callback that receives the name and the result of each action.
    """

    def __init__(
        self,
        api: ApiClient,
        events: Events,
        *,
        namespace: str,
        reset_job: str,
        job_seconds: float,
        leads: Callable[[], bool],
        on_node: Callable[[NodeObject], None],
        count: Count,
    ) -> None:
        self._api, self._events, self._leads = api, events, leads
        self._namespace, self._reset_job, self._job_seconds = namespace, reset_job, job_seconds
        self._on_node, self._count = on_node, count

    async def carry_out(self, view: RemediationNode, actions: tuple[Action, ...]) -> None:
        """Carry out the actions in order, and stop at the first action that fails.

        Raises:
            ApiError: the API server rejected an action or did not respond. The remaining actions were not carried out.
            ConfigurationError: no Job template exists.
            NotLeadingError: another replica is the leader.
        """
        version = view.version
        for action in actions:
            if not self._leads():
                raise NotLeadingError("another replica is the leader")
            try:
                version = await self._do(view, version, action)
            except (ApiError, ConfigurationError):
                self._count(name_action(action), "failed")
                raise

    async def _do(self, view: RemediationNode, version: str, action: Action) -> str:
        """Carry out an action; return the resource version of the node after the action."""
        result = "done"
        match action:
            case WriteNode() | WriteCondition():
                node = await write_node(self._api, view, version, action)
                self._on_node(node)
                version = node.metadata.resource_version
            case NodeEvent():
                # The reference contains the UID, because `kubectl describe node` selects Events by UID.
                reference = ObjectReference("Node", view.name, uid=view.uid)
                await self._events.record(reference, action.reason, action.message, warning=action.warning)
            case PodEvent():
                pod = ObjectReference("Pod", action.pod.name, action.pod.namespace, action.pod.uid)
                await self._events.record(pod, "CardFailed", action.message, warning=True)
            case Evict():
                result = await self._evict(action)
            case CreateJob():
                await self._create_job(view, action)
        self._count(name_action(action), result)
        return version

    async def _evict(self, action: Evict) -> str:
        try:
            await evict(self._api, action.pod)
        except ApiError as exc:
            if exc.not_found or exc.conflict:
                return "gone"
            # A disruption budget prevents the eviction, or two budgets select the pod, which the API server reports as
            # a server error. The budget of a user must not stop the pass over all nodes. Later passes retry the
            # eviction until the deadline.
            if exc.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR}:
                return "refused"
            # The webhook of a user rejected the eviction. This must not affect other pods or cards.
            if not exc.unanswered:
                log.warning("eviction failed pod=%s error=%s", action.pod, exc)
                return "failed"
            raise
        return "done"

    async def _create_job(self, view: RemediationNode, action: CreateJob) -> None:
        cron_jobs = build_collection_path("batch/v1", "cronjobs", self._namespace)
        template = await get_if_present(self._api, build_object_path(cron_jobs, self._reset_job))
        if template is None:
            raise ConfigurationError(
                f"cannot reset cards: CronJob {self._reset_job} does not exist in namespace {self._namespace}",
                next_step="create it with spec.suspend: true, or leave reset_job empty and reset cards manually",
            )
        variables = {
            "ACCELKIT_CARD": action.card,
            "ACCELKIT_NODE": view.name,
            "ACCELKIT_REASON": action.reason,
            # The root user of a node can write any text to the inventory, and a privileged Job reads this value.
            "ACCELKIT_BDF": next(
                (card.bdf for card in view.cards or () if card.id == action.card and PCI_ADDRESS.fullmatch(card.bdf)),
                "",
            ),
        }
        reset = Reset(self._reset_job, action.name, self._namespace, view.name, variables, self._job_seconds)
        job = build_reset_job(template, reset)
        try:
            await self._api.post(build_collection_path("batch/v1", "jobs", self._namespace), job)
        except ApiError as exc:
            # The name of the Job is specific to this fault. Therefore, this service created the Job before it was
            # restarted.
            if not exc.already_exists:
                raise
