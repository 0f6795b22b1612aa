"""The Kubernetes objects of an example, in this order: the namespaces, the cache and the workloads.

The objects are the same as in GKM's examples, with these intended differences:

* For Node Feature Discovery, the affinity also matches labels that contain only the vendor, and labels that contain
  AMD's accelerator class. The workloads also tolerate the taint for AMD's or NVIDIA's GPUs.
* Only the workloads have the init container for kind, because GKM's podTemplate does not support init containers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from accelkit.examples.custom import NO_CUSTOM, Custom
from accelkit.examples.example import Access, CosignVersion, Environment, Example, Gpu, Scope

Object = dict[str, Any]

GKM_API: Final = "gkm.io/v1alpha1"
WORKLOADS: Final = 3

_CACHE_IMAGES: Final = "quay.io/gkm/cache-examples"
_WORKLOAD_IMAGE: Final = "quay.io/fedora/fedora-minimal"
_VOLUME: Final = "kernel-volume"
_CACHE_FOLDER: Final = "/cache"
_USER: Final = 1000
_PERMISSIONS: Final = f"chown -R {_USER}:{_USER} {_CACHE_FOLDER} && chmod -R 775 {_CACHE_FOLDER}"

# This annotation requests that GKM's webhook replaces the claim in each pod with the claim for the pod's node.
_OWN_CLAIM: Final = MappingProxyType({"gkm.io/pvc-mutation": "true"})

# The labels from Node Feature Discovery contain the class and vendor of a PCI device or, in a common configuration,
# only the vendor.
_PCI_LABELS: Final[Mapping[Gpu, Sequence[str]]] = MappingProxyType(
    {
        Gpu.CUDA: ("pci-0300_10de", "pci-0302_10de", "pci-10de"),
        Gpu.ROCM: ("pci-0300_1002", "pci-0302_1002", "pci-0380_1002", "pci-1200_1002", "pci-1002"),
    }
)
_TAINTS: Final[Mapping[Gpu, str]] = MappingProxyType({Gpu.CUDA: "nvidia.com/gpu", Gpu.ROCM: "amd.com/gpu"})


def build_objects(example: Example, custom: Custom = NO_CUSTOM) -> list[Object]:
    """Return the objects of an example in the order in which they must be created.

    Args:
        example: the example.
        custom: the affinity, tolerations and node selectors that replace the values for the example's environment.
    """
    workload = _build_daemon_set if example.access is Access.RWO else _build_pod
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in example.namespaces),
        _build_cache(example, custom),
        *(workload(example, custom, number) for number in range(1, WORKLOADS + 1)),
    ]


def _build_cache(example: Example, custom: Custom) -> Object:
    of_cluster = example.scope is Scope.CLUSTER
    modes = ["ReadWriteOnce", "ReadOnlyMany"] if example.access is Access.ROX else ["ReadWriteOnce"]
    placement = _build_affinity(example, custom) | _build_tolerations(example, custom)
    return {
        "apiVersion": GKM_API,
        "kind": "ClusterGKMCache" if of_cluster else "GKMCache",
        "metadata": {
            "name": example.cache_name,
            **({} if of_cluster else {"namespace": example.namespaces[0]}),
            "labels": {"gkm.io/signature-format": f"cosign-{example.cosign}"},
        },
        "spec": {
            "image": _name_cache_image(example),
            **({"workloadNamespaces": [*example.namespaces]} if of_cluster else {}),
            "accessModes": modes,
            **({"podTemplate": {"spec": placement}} if placement else {}),
        },
    }


def _name_cache_image(example: Example) -> str:
    signed = "-v2" if example.cosign is CosignVersion.V2 else ""
    return f"{_CACHE_IMAGES}:vector-add-cache-{example.gpu}{signed}"


def _build_pod(example: Example, custom: Custom, number: int) -> Object:
    metadata = {"name": f"gkm-test-pod-{number}-{example.suffix}", "namespace": _choose_namespace(example, number)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _build_pod_spec(example, custom, number)}


def _build_daemon_set(example: Example, custom: Custom, number: int) -> Object:
    name = f"gkm-test-ds-{number}"
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": f"{name}-{example.suffix}",
            "namespace": _choose_namespace(example, number),
            "labels": {**_OWN_CLAIM},
        },
        "spec": {
            "selector": {"matchLabels": {"name": name}},
            "template": {
                "metadata": {"labels": {"name": name, **_OWN_CLAIM}},
                "spec": _build_pod_spec(example, custom, number),
            },
        },
    }


def _choose_namespace(example: Example, number: int) -> str:
    # The first two workloads are in the first namespace. The third workload is in the second namespace, if it exists.
    return example.namespaces[-1 if number == WORKLOADS else 0]


def _build_pod_spec(example: Example, custom: Custom, number: int) -> Object:
    mount: Object = {"name": _VOLUME, "mountPath": _CACHE_FOLDER}
    read_only = example.access is Access.RWO and number == 1
    of_kind = example.environment is Environment.KIND
    return {
        "securityContext": {"fsGroup": _USER},
        **({"initContainers": [_build_permissions_fix(mount)]} if of_kind else {}),
        "containers": [
            {
                "name": "test",
                "image": _WORKLOAD_IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sleep", "365d"],
                "securityContext": {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "runAsUser": _USER},
                "volumeMounts": [{**mount, "readOnly": True} if read_only else mount],
            }
        ],
        "volumes": [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": example.cache_name}}],
        **_build_affinity(example, custom),
        **_build_tolerations(example, custom),
        **_build_node_selector(example, custom, number),
    }


def _build_permissions_fix(mount: Object) -> Object:
    # On kind, the folder belongs to root, so the workload does not have permission to read it.
    return {
        "name": "fix-permissions",
        "image": _WORKLOAD_IMAGE,
        "command": ["sh", "-c", _PERMISSIONS],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [mount],
    }


def _build_affinity(example: Example, custom: Custom) -> Object:
    if custom.affinity is not None:
        return {"affinity": custom.affinity}
    if example.environment is not Environment.NFD:
        return {}
    # A node must match at least one term. To match a term, it must match all expressions in the term.
    terms = [
        {"matchExpressions": [{"key": f"feature.node.kubernetes.io/{device}.present", "operator": "Exists"}]}
        for device in _PCI_LABELS[example.gpu]
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _build_tolerations(example: Example, custom: Custom) -> Object:
    if custom.tolerations is not None:
        return {"tolerations": [*custom.tolerations]}
    match example.environment:
        case Environment.KIND:
            simulated = {"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
            return {"tolerations": [simulated]}
        case Environment.NFD:
            return {"tolerations": [{"key": _TAINTS[example.gpu], "operator": "Exists", "effect": "NoSchedule"}]}
        case _:
            return {}


def _build_node_selector(example: Example, custom: Custom, number: int) -> Object:
    chosen = custom.node_selectors[number - 1]
    if chosen is not None:
        return {"nodeSelector": chosen}
    if example.environment is Environment.KIND and example.access is Access.RWO and number > 1:
        # In GKM's kind cluster, the label value is true on one worker and false on the other, with one DaemonSet for
        # each worker.
        return {"nodeSelector": {"gkm-test-node": "true" if number == 2 else "false"}}  # noqa: PLR2004 - the second
    return {}
