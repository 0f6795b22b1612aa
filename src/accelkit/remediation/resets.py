"""Function that builds the Job that resets a card, from the template in the administrator's suspended CronJob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from accelkit.errors import ConfigurationError
from accelkit.kube.listing import UNREADABLE
from accelkit.model.keys import RESET_LABEL


class _JobTemplate(msgspec.Struct):
    metadata: dict[str, Any] = {}
    spec: dict[str, Any] = {}


class _Spec(msgspec.Struct, rename="camel"):
    suspend: bool = False
    job_template: _JobTemplate = msgspec.field(default_factory=_JobTemplate)


class _CronJob(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


@dataclass(frozen=True)
class Reset:
    """A reset of a card.

    Attributes:
        template: the name of the CronJob.
        name: the name of the Job.
        namespace: the namespace of the CronJob and the Job.
        node: the node on which the pod of the Job runs, regardless of taints.
        variables: the environment variables for all containers in the Job.
        seconds: the maximum duration of the Job if the template does not contain a deadline.
    """

    template: str
    name: str
    namespace: str
    node: str
    variables: Mapping[str, str]
    seconds: float


def build_reset_job(cron_job: bytes, reset: Reset) -> dict[str, Any]:
    """Return the Job that resets a card. It is built from a CronJob in JSON format.

    Raises:
        ConfigurationError: the CronJob cannot be decoded or is not suspended.
    """
    try:
        found = msgspec.json.decode(cron_job, type=_CronJob).spec
    except UNREADABLE as exc:
        raise ConfigurationError(f"cannot decode CronJob {reset.template}: {exc}") from exc
    if not found.suspend:
        raise ConfigurationError(
            f"cannot reset cards: CronJob {reset.template} is not suspended, so it would also run on its schedule",
            next_step=f"set its spec.suspend to true in namespace {reset.namespace}",
        )
    spec = dict(found.job_template.spec)
    pod_template = dict(spec.get("template") or {})
    pod = dict(pod_template.get("spec") or {})
    env = [{"name": key, "value": value} for key, value in sorted(reset.variables.items())]
    for kind in ("initContainers", "containers"):
        if kind in pod:
            pod[kind] = [{**each, "env": [*(each.get("env") or ()), *env]} for each in pod[kind]]
    # The pod must run on this node, regardless of taints and cordons.
    pod |= {"nodeName": reset.node, "tolerations": [{"operator": "Exists"}]}
    spec["template"] = {**pod_template, "spec": pod}
    spec.setdefault("activeDeadlineSeconds", max(1, int(reset.seconds)))
    metadata = {
        "name": reset.name,
        "namespace": reset.namespace,
        "labels": {**(found.job_template.metadata.get("labels") or {}), RESET_LABEL: reset.template},
        "annotations": {**(found.job_template.metadata.get("annotations") or {})},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
