"""Configuration of accelkit's own kube-scheduler, for clusters whose kube-scheduler cannot be configured."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from accelkit.scheduler.actions import build_desired_settings
from accelkit.scheduler.arguments import Spec
from accelkit.scheduler.configuration.component_config import build_configuration
from accelkit.scheduler.configuration.versions import choose_written_format, parse_minor

_CREDENTIALS: Final = {"caFile": "ca.crt", "certFile": "tls.crt", "keyFile": "tls.key"}


def build_second_scheduler_configuration(spec: Spec, *, name: str, namespace: str, credentials: str) -> str:
    """Return the KubeSchedulerConfiguration for a kube-scheduler that runs in a pod.

    Args:
        spec: the specification, with the extender and kubernetes_version.
        name: the `spec.schedulerName` of the pods that use this scheduler, and the name of the Lease.
        namespace: the namespace of the Lease.
        credentials: the folder in the pod with ca.crt, tls.crt and tls.key from a mounted Secret; used only with HTTPS.

    Raises:
        ConfigurationError: the extender or the version is missing, or the version is not supported.
    """
    desired = build_desired_settings(spec)
    api_version = choose_written_format(parse_minor(desired.kubernetes_version))
    extender = desired.extender
    if extender.enable_https:
        files = {key: f"{credentials}/{file}" for key, file in _CREDENTIALS.items()}
        extender = dataclasses.replace(extender, tls_config={**(extender.tls_config or {}), **files})
    fields: dict[str, Any] = {
        "leaderElection": {
            "leaderElect": True,
            "resourceLock": "leases",
            "resourceNamespace": namespace,
            "resourceName": name,
        },
        "profiles": [{"schedulerName": name}],
    }
    return build_configuration(api_version, fields, extender)
