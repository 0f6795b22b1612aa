"""The check pod of a node, with the pod template and the fields that are read from the pod.

The pod has an affinity to its node and is placed by kube-scheduler, so that the extender handles it like other pods.
The first container requests the smallest share and exits after its work. The second container does not request a share.
It runs until the pod has been examined, because devices and the ledger's entry belong to a pod, not to a container.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from accelkit.kube.ownership import OWNER_LABELS
from accelkit.kube.views.metadata import ExplainedCondition
from accelkit.kube.views.pod import ContainerState, ExplainedPod
from accelkit.model.keys import CHECK_RUN_ANNOTATION, COMPONENT_LABEL, MIRROR_ANNOTATION, NAME_LABEL, PART_OF_SELECTOR

CHECK: Final = "check"
HOLD: Final = "hold"
COMPONENT: Final = "share-check"
RUN_ANNOTATION: Final = CHECK_RUN_ANNOTATION
SELECTOR: Final = f"{PART_OF_SELECTOR},{COMPONENT_LABEL}={COMPONENT}"
_MESSAGE_FILE: Final = "/dev/termination-log"
# Additional time after the time limit, after which a pod terminates on its own if it has not been deleted.
_MARGIN_SECONDS: Final = 60
_USER: Final = 65532


@dataclass(frozen=True)
class CheckPods:
    """The template of the pods.

    Attributes:
        namespace: the namespace of the pods, which is accelkit's namespace.
        image: accelkit's image.
        pull_secrets: names of Secrets in the namespace.
        runtime_class: the RuntimeClass of the pods; empty for none.
        scheduler: the schedulerName of the pods; empty for the cluster's default.
        seconds: the time limit for each pod, from its creation to its termination.
    """

    namespace: str
    image: str
    pull_secrets: tuple[str, ...] = ()
    runtime_class: str = ""
    scheduler: str = ""
    seconds: float = 120.0


class CheckPod(ExplainedPod):
    """A check pod from the API server."""

    @property
    def run(self) -> str:
        """The ID of the run that created the pod."""
        return (self.metadata.annotations or {}).get(RUN_ANNOTATION, "")

    @property
    def mirror(self) -> bool:
        """Whether the pod mirrors a static pod; a kubelet can choose any name, and recreates deleted mirror pods."""
        return MIRROR_ANNOTATION in (self.metadata.annotations or {})

    @property
    def check(self) -> ContainerState:
        """The state of the working container."""
        found = (each.state for each in self.status.container_statuses or () if each.name == CHECK)
        return next(found, ContainerState())

    @property
    def scheduling(self) -> ExplainedCondition | None:
        """The condition PodScheduled from kube-scheduler."""
        return next((each for each in self.status.conditions or () if each.type == "PodScheduled"), None)


def name_pod(node: str) -> str:
    """Return the name of the pod for a node. It contains a hash, because the node name may be too long."""
    return f"accelkit-share-check-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def build_pod(node: str, resource: str, pods: CheckPods, run: str) -> dict[str, Any]:
    """Return the pod that checks a node.

    Args:
        node: the name of the node.
        resource: the extended resource for memory; the pod requests one unit.
        pods: the template of the pods.
        run: the ID of the run that creates the pod.
    """
    work_seconds = max(1.0, pods.seconds / 2)
    check = [
        *("--devices", "/dev", "--evidence", _MESSAGE_FILE),
        *("--seconds", f"{work_seconds:g}"),
    ]
    host = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
    limits = {**host["limits"], resource: "1"}
    idle = {"requests": {"cpu": "5m", "memory": "48Mi"}, "limits": {"memory": "256Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name_pod(node),
            "namespace": pods.namespace,
            "labels": {**OWNER_LABELS, NAME_LABEL: "accelkit-share-check", COMPONENT_LABEL: COMPONENT},
            "annotations": {RUN_ANNOTATION: run},
        },
        "spec": {
            **({"schedulerName": pods.scheduler} if pods.scheduler else {}),
            **({"runtimeClassName": pods.runtime_class} if pods.runtime_class else {}),
            "affinity": {"nodeAffinity": _hold_to(node)},
            "restartPolicy": "Never",
            "activeDeadlineSeconds": round(pods.seconds) + _MARGIN_SECONDS,
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            # Taints may exclude other pods from nodes with cards. The check pod must run on these nodes, like pods with
            # cards.
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": secret} for secret in pods.pull_secrets],
            "securityContext": {
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                # If NVIDIA's container runtime is in use, these driver capabilities add the driver library.
                _build_container(CHECK, pods.image, check, {**host, "limits": limits}, cuda=True),
                _build_container(HOLD, pods.image, ["--hold", f"{pods.seconds + _MARGIN_SECONDS:g}"], idle),
            ],
        },
    }


def _hold_to(node: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}


def _build_container(
    name: str, image: str, arguments: list[str], resources: dict[str, dict[str, str]], *, cuda: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["--log-level", "error", "share-check", *arguments],
        **({"env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}]} if cuda else {}),
        "resources": resources,
        "terminationMessagePath": _MESSAGE_FILE,
        # If a container exits without a message, the end of its log is used.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
