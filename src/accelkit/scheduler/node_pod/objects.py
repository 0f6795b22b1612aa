"""Objects that run `accelkit config-manager` once on a node: a pod, its permissions and its specification.

The pod sets `nodeName`, so that no scheduler is involved. It may write to the folders of kube-scheduler's files and of
the record, and read the status of static pods in its namespace, kube-system. It does not have any other access.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from accelkit.kube.paths import build_collection_path, build_secrets_path
from accelkit.model.keys import NAME_LABEL, PART_OF_LABELS
from accelkit.scheduler.arguments import PodImage, Spec
from accelkit.scheduler.launch.manifest import MANIFEST

# Namespace of static pods, in which pods may have a system priority class.
NAMESPACE: Final = "kube-system"
START_SECONDS: Final = 180
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_ROOT: Final = "/host"
_SPEC_FOLDER: Final = "/run/accelkit"
_SPEC_KEY: Final = "spec.json"
_LABELS: Final = {NAME_LABEL: "accelkit-config-manager", **PART_OF_LABELS}
# Root owns the files of a control plane, and no other user can access these files.
_CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER")


def build_pod_name(node: str) -> str:
    """Return the name of the pod and the other objects for a node; the node name itself may be too long."""
    return f"accelkit-config-manager-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def build_objects(action: str, spec: Spec, source: PodImage) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects in the order of creation, each with the API path of its collection; the pod is last."""
    name = build_pod_name(spec.node)
    metadata = {"name": name, "namespace": NAMESPACE, "labels": _LABELS}
    rule = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    return [
        (build_collection_path("v1", "serviceaccounts", NAMESPACE), {"metadata": metadata}),
        (build_collection_path(_RBAC, "roles", NAMESPACE), {"metadata": metadata, "rules": [rule]}),
        (
            build_collection_path(_RBAC, "rolebindings", NAMESPACE),
            {"metadata": metadata, "roleRef": role, "subjects": [subject]},
        ),
        (
            build_secrets_path(NAMESPACE),
            {"metadata": metadata, "stringData": {_SPEC_KEY: msgspec.json.encode(spec).decode()}},
        ),
        (
            build_collection_path("v1", "pods", NAMESPACE),
            {"metadata": metadata, "spec": _pod_spec(action, spec, source)},
        ),
    ]


def _pod_spec(action: str, spec: Spec, source: PodImage) -> dict[str, Any]:
    name, writes = build_pod_name(spec.node), action in {"apply", "remove"}
    mounts = _host_mounts(spec, source.host_folders)
    container = {
        "name": "config-manager",
        "image": source.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["config-manager", action, "--spec", f"{_SPEC_FOLDER}/{_SPEC_KEY}", "--root", _ROOT],
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": list(_CAPABILITIES)},
        },
        "volumeMounts": [
            {"name": "spec", "mountPath": _SPEC_FOLDER, "readOnly": True},
            *(
                {"name": f"host-{at}", "mountPath": f"{_ROOT}{path}", "readOnly": not (writes and writable)}
                for at, (path, _, writable) in enumerate(mounts)
            ),
        ],
    }
    return {
        "nodeName": spec.node,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": compute_deadline_seconds(spec),
        "serviceAccountName": name,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        # The pod sends a health check to kube-scheduler's port, which listens on the host's loopback address.
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "imagePullSecrets": [{"name": secret} for secret in source.pull_secrets],
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
            # Without this type, SELinux would deny the container access to the host's files.
            "seLinuxOptions": {"type": "spc_t"},
        },
        "containers": [container],
        "volumes": [
            {"name": "spec", "secret": {"secretName": name, "defaultMode": 0o400}},
            *(
                {"name": f"host-{at}", "hostPath": {"path": path, "type": kind}}
                for at, (path, kind, _) in enumerate(mounts)
            ),
        ],
    }


def compute_deadline_seconds(spec: Spec) -> int:
    """Return the pod's time limit, which includes the waits for kube-scheduler after check, switch and rollback."""
    return START_SECONDS + round(3 * spec.timeout)


def _host_mounts(spec: Spec, folders: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Return the path, type and write access of each host folder that the pod mounts.

    Paths that accelkit creates and deletes must be inside a mount, because a mounted folder itself cannot be created or
    deleted. Therefore, the first two levels of a path, such as /var/lib, are mounted, because they exist on every host.
    """
    places = (spec.launch.path or MANIFEST, spec.folder, spec.backup_dir)
    written = dict.fromkeys(str(PurePosixPath(*PurePosixPath(place).parent.parts[:3])) for place in places)
    read = [path for path in folders if path not in written]
    files = ["/etc/hosts"] if spec.dns_policy else []
    return [
        *((path, "Directory", True) for path in written),
        *((path, "Directory", False) for path in read),
        *((path, "File", False) for path in files),
    ]
