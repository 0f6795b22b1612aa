"""The check pod of a node: what it is made of, and what is read of it.

It goes through kube-scheduler, held to its node by its name, so that the extender decides as it does for everybody. Its
first container asks for the smallest share and ends when it has worked. The second one asks for none and keeps the pod,
whose devices and entry in the ledger are a pod's and not a container's, until it has been looked at.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accelkit.kube.ownership import OWNER_LABELS
from accelkit.model.keys import CHECK_RUN_ANNOTATION, COMPONENT_LABEL, NAME_LABEL, PART_OF_SELECTOR
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import MIRROR_ANNOTATION

CHECK: Final = "check"
HOLD: Final = "hold"
COMPONENT: Final = "share-check"
RUN_ANNOTATION: Final = CHECK_RUN_ANNOTATION
SELECTOR: Final = f"{PART_OF_SELECTOR},{COMPONENT_LABEL}={COMPONENT}"
_MESSAGE_FILE: Final = "/dev/termination-log"
# Beyond its deadline a pod ends by itself, where nobody is left to delete it.
_MARGIN_SECONDS: Final = 60
_USER: Final = 65532


@dataclass(frozen=True)
class CheckPods:
    """What the pods are made of.

    Attributes:
        namespace: of the pods; accelkit's.
        image: accelkit's.
        pull_secrets: names of Secrets in the namespace.
        runtime_class: of the pods; empty for none.
        scheduler: schedulerName of the pods; empty for the cluster's own.
        seconds: how long each may take, from its creation to its end.
    """

    namespace: str
    image: str
    pull_secrets: tuple[str, ...] = ()
    runtime_class: str = ""
    scheduler: str = ""
    seconds: float = 120.0


class Terminated(msgspec.Struct, rename="camel", omit_defaults=True):
    """How a container ended."""

    exit_code: int
    reason: str = ""
    message: str = ""


class Waiting(msgspec.Struct, omit_defaults=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class CheckState(msgspec.Struct, omit_defaults=True):
    """What a container does."""

    terminated: Terminated | None = None
    waiting: Waiting | None = None


class CheckContainer(msgspec.Struct, omit_defaults=True):
    """status of a container."""

    name: str
    state: CheckState = msgspec.field(default_factory=CheckState)


class CheckCondition(msgspec.Struct, omit_defaults=True):
    """A condition of a pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class CheckStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """status of a check pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: list[CheckCondition] | None = None
    container_statuses: list[CheckContainer] | None = None


class CheckSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """spec of a check pod."""

    node_name: str = ""


class CheckPod(msgspec.Struct, omit_defaults=True):
    """A check pod as the API server shows it."""

    metadata: ObjectMeta
    spec: CheckSpec = msgspec.field(default_factory=CheckSpec)
    status: CheckStatus = msgspec.field(default_factory=CheckStatus)

    @property
    def run(self) -> str:
        """The run that created it."""
        return (self.metadata.annotations or {}).get(RUN_ANNOTATION, "")

    @property
    def mirror(self) -> bool:
        """Whether a kubelet made it of a file: under what name it likes, and anew whenever it is gone."""
        return MIRROR_ANNOTATION in (self.metadata.annotations or {})

    @property
    def check(self) -> CheckState:
        """The state of the container that works."""
        found = (each.state for each in self.status.container_statuses or () if each.name == CHECK)
        return next(found, CheckState())

    @property
    def scheduling(self) -> CheckCondition | None:
        """What kube-scheduler says of it."""
        return next((each for each in self.status.conditions or () if each.type == "PodScheduled"), None)

    @property
    def terminal(self) -> bool:
        """Whether its containers have ended for good, so that it holds no card any more."""
        return self.status.phase in {"Succeeded", "Failed"}


def name_pod(node: str) -> str:
    """Return the name of the pod for a node, whose own may be too long."""
    return f"accelkit-share-check-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def build_pod(node: str, resource: str, pods: CheckPods, run: str) -> dict[str, Any]:
    """Return the pod that checks a node.

    Args:
        node: its name.
        resource: the extended resource of memory, of which the pod asks for one.
        pods: what pods are made of.
        run: names who creates it.
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
            # Nodes with cards are kept free of other pods by taints, and this one is as good as any that may come.
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": secret} for secret in pods.pull_secrets],
            "securityContext": {
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                # Of NVIDIA's runtime, where it is in use, the library comes with this one.
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
        # What ended without a word of its own is told by the end of its log.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
