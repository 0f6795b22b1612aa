"""Builds the Job that resets a card, from the template of a CronJob that a person made and keeps suspended."""

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
    """A reset of one card.

    Attributes:
        template: name of the CronJob.
        name: of the Job.
        namespace: of both.
        node: where its pod runs, whatever taints there are.
        variables: that all its containers get.
        seconds: its deadline, where the template has none.
    """

    template: str
    name: str
    namespace: str
    node: str
    variables: Mapping[str, str]
    seconds: float


def build_reset_job(cron_job: bytes, reset: Reset) -> dict[str, Any]:
    """Return the Job, by the CronJob as the API server shows it.

    Raises:
        ConfigurationError: the CronJob is none that may be used.
    """
    try:
        found = msgspec.json.decode(cron_job, type=_CronJob).spec
    except UNREADABLE as exc:
        raise ConfigurationError(f"CronJob {reset.template} cannot be read: {exc}") from exc
    if not found.suspend:
        raise ConfigurationError(
            f"CronJob {reset.template} is not suspended, so it would reset cards by the clock",
            next_step=f"set spec.suspend of it to true, in the namespace {reset.namespace}",
        )
    spec = dict(found.job_template.spec)
    pod_template = dict(spec.get("template") or {})
    pod = dict(pod_template.get("spec") or {})
    env = [{"name": key, "value": value} for key, value in sorted(reset.variables.items())]
    for kind in ("initContainers", "containers"):
        if kind in pod:
            pod[kind] = [{**each, "env": [*(each.get("env") or ()), *env]} for each in pod[kind]]
    # Its pod is to run on the node whatever taints and cordons there are, and never anywhere else.
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
