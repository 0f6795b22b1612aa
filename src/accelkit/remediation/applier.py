"""Carries out what was decided: each action is one request, and nothing is written by who does not lead."""

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
from accelkit.remediation.deciding.actions import (
    Action,
    CreateJob,
    Evict,
    TellNode,
    TellPod,
    WriteCondition,
    WriteNode,
)
from accelkit.remediation.deciding.views import NodeView
from accelkit.remediation.node_writes import write_node
from accelkit.remediation.nodes import SeenNode
from accelkit.remediation.resets import Reset, build_reset_job

log = logging.getLogger(__name__)

Count = Callable[[str, str], None]
_NAMES: Mapping[type[Action], str] = {
    CreateJob: "reset",
    Evict: "evict",
    TellNode: "tell-node",
    TellPod: "tell-pod",
    WriteCondition: "condition",
    WriteNode: "node",
}


def name_action(action: Action) -> str:
    """Return what an action is called in metrics and logs."""
    return _NAMES[type(action)]


class Applier:
    """Writes to the cluster.

    Args:
        api: an open client whose requests end before a term does.
        events: where people are told.
        namespace: of Jobs.
        reset_job: the CronJob from whose template they are made; empty for none.
        job_seconds: their deadline where the template has none.
        leads: whether we may write now.
        on_node: told of each node that a write has changed.
        count: counts actions by name and result.
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
        on_node: Callable[[SeenNode], None],
        count: Count,
    ) -> None:
        self._api, self._events, self._leads = api, events, leads
        self._namespace, self._reset_job, self._job_seconds = namespace, reset_job, job_seconds
        self._on_node, self._count = on_node, count

    async def carry_out(self, view: NodeView, actions: tuple[Action, ...]) -> None:
        """Do one action after the other; what an API server does not take ends it.

        Raises:
            ApiError: the API server refused one, or did not answer; nothing after that was done.
            ConfigurationError: there is nothing from which a Job could be made.
            NotLeadingError: another replica leads.
        """
        version = view.version
        for action in actions:
            if not self._leads():
                raise NotLeadingError("another replica writes now")
            try:
                version = await self._do(view, version, action)
            except (ApiError, ConfigurationError):
                self._count(name_action(action), "failed")
                raise

    async def _do(self, view: NodeView, version: str, action: Action) -> str:
        """Carry out one action; return the node's version after it."""
        result = "done"
        match action:
            case WriteNode() | WriteCondition():
                node = await write_node(self._api, view, version, action)
                self._on_node(node)
                version = node.metadata.resource_version
            case TellNode():
                # By its UID too, as people look for it.
                reference = ObjectReference("Node", view.name, uid=view.uid)
                await self._events.record(reference, action.reason, action.message, warning=action.warning)
            case TellPod():
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
            # A budget, or two of them for one pod, answered as a fault of the server: whoever may write budgets ends no
            # pass over all nodes by it. The next pass asks again, until the deadline.
            if exc.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR}:
                return "refused"
            # A webhook of somebody: the other pods of the card, and other cards of the node, are not its business.
            if not exc.unanswered:
                log.warning("pod %s is not evicted: %s", action.pod, exc)
                return "failed"
            raise
        return "done"

    async def _create_job(self, view: NodeView, action: CreateJob) -> None:
        cron_jobs = build_collection_path("batch/v1", "cronjobs", self._namespace)
        template = await get_if_present(self._api, build_object_path(cron_jobs, self._reset_job))
        if template is None:
            raise ConfigurationError(
                f"there is no CronJob {self._reset_job} in the namespace {self._namespace}, from which cards are reset",
                next_step="create it, suspended, or leave reset_job empty and reset cards yourself",
            )
        variables = {
            "ACCELKIT_CARD": action.card,
            "ACCELKIT_NODE": view.name,
            "ACCELKIT_REASON": action.reason,
            "ACCELKIT_BDF": next((card.bdf for card in view.cards or () if card.id == action.card), ""),
        }
        reset = Reset(self._reset_job, action.name, self._namespace, view.name, variables, self._job_seconds)
        job = build_reset_job(template, reset)
        try:
            await self._api.post(build_collection_path("batch/v1", "jobs", self._namespace), job)
        except ApiError as exc:
            # Ours, of before a crash: its name is of this fault alone.
            if not exc.already_exists:
                raise
