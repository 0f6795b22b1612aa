"""Manifests for claims, for Jobs, and for the Jobs' ConfigMaps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from accelkit.cachecontroller.cluster_view import ObjectName
from accelkit.cachecontroller.delivery import FillSettings, SecretCopy
from accelkit.cachecontroller.filling.objects import Target
from accelkit.errors import QuantityError
from accelkit.gkm.objects import CacheSpec, PodTemplate
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.signatures.policy_objects import parse_policies
from accelkit.model.keys import CACHE_TRY_ANNOTATION
from accelkit.model.units import parse_quantity

VOLUME_PATH: Final = "/volume"
_SETTINGS_PATH: Final = "/etc/accelkit/fill"
_SECRETS_PATH: Final = "/etc/accelkit/pull"
_PULL_SECRET: Final = ".dockerconfigjson"  # noqa: S105 - the key in a Secret
_MEBIBYTE: Final = 1 << 20
# Allowance for file system metadata and for partially used blocks.
_MARGIN: Final = 1.2
_MARGIN_BYTES: Final = 64 << 20
_UNKNOWN_BYTES: Final = 1 << 30
_USER: Final = 65532
_DEADLINE_SECONDS: Final = 1800
_KEPT_SECONDS: Final = 3600
RESTRICTED: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def measure_claim(spec: CacheSpec, cache_bytes: int) -> int:
    """Return the size of a claim in bytes, rounded up to MiB.

    Raises:
        QuantityError: the size in the spec is invalid.
    """
    if spec.size:
        requested_bytes = parse_quantity(spec.size)
        if not requested_bytes:
            raise QuantityError(f"size {spec.size!r} is zero", next_step="omit it, or use a size such as 5Gi")
    else:
        requested_bytes = math.ceil(cache_bytes * _MARGIN) + _MARGIN_BYTES if cache_bytes else _UNKNOWN_BYTES
    return -(-requested_bytes // _MEBIBYTE) * _MEBIBYTE


def write_size(size_bytes: int) -> str:
    """Return a size as a Kubernetes quantity in MiB."""
    return f"{size_bytes // _MEBIBYTE}Mi"


def write_claim(
    metadata: Mapping[str, Any],
    storage_class: str,
    modes: Iterable[str],
    size: str,
    *,
    source: Mapping[str, str] | None = None,
    volume: str = "",
) -> dict[str, Any]:
    """Return the manifest of a claim, optionally with a data source to copy or with an existing volume."""
    spec: dict[str, Any] = {
        "accessModes": list(modes),
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    if source is not None:
        spec["dataSource"] = dict(source)
    if volume:
        spec["volumeName"] = volume
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": dict(metadata), "spec": spec}


def write_settings(
    target: Target, name: str, settings: FillSettings, policies: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the ConfigMap of a Job, with the signer policies for its image and the registries' CA certificates.

    Other policies are omitted, because one invalid policy would make the whole file invalid.
    """
    image = parse_reference(target.image)
    covering = parse_policies(policies.items()).policies.select(image, target.cache.metadata.namespace or None)
    documents = [
        {
            "apiVersion": "accelkit.io/v1alpha1",
            "kind": "SignerPolicy",
            "metadata": {"name": each.name},
            "spec": policies[each.name],
        }
        for each in covering
    ]
    # JSON is valid YAML.
    data = {"policies.yaml": "".join(f"---\n{msgspec.json.encode(each).decode()}\n" for each in documents)}
    if settings.trusted_root is not None:
        data["trusted-root.json"] = settings.trusted_root.decode()
    if settings.registry_ca is not None:
        data["registry-ca.pem"] = settings.registry_ca.decode()
    metadata = target.mark(name, settings.namespace)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "data": data}


def write_job(
    target: Target, settings: FillSettings, *, name: str, claim: str, shared: str, attempt: int, check: bool
) -> dict[str, Any]:
    """Return the manifest of a Job that fills a claim, or that checks whether a copy is complete.

    Args:
        target: content of the claim.
        settings: settings of the controller.
        name: name of the Job.
        claim: name of the claim in accelkit's namespace.
        shared: name of the ConfigMap.
        attempt: number of the attempt, starting at 1.
        check: whether the Job only checks the claim.
    """
    secrets = name_secrets(target, settings, name)
    volumes: list[dict[str, Any]] = [
        {"name": "volume", "persistentVolumeClaim": {"claimName": claim, **({"readOnly": True} if check else {})}},
        {"name": "settings", "configMap": {"name": shared}},
        {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "volume", "mountPath": VOLUME_PATH, **({"readOnly": True} if check else {})},
        {"name": "settings", "mountPath": _SETTINGS_PATH, "readOnly": True},
        {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - in a container of its own
    ]
    for number, secret in enumerate(secrets if not check else ()):
        # An admission policy allows the controller to use only this key of the Secret.
        items = [{"key": _PULL_SECRET, "path": _PULL_SECRET}]
        volumes.append({"name": f"pull-{number}", "secret": {"secretName": secret, "items": items}})
        mounts.append({"name": f"pull-{number}", "mountPath": f"{_SECRETS_PATH}/{number}", "readOnly": True})
    container = {
        "name": "fill",
        "image": settings.image,
        "args": _list_arguments(target, settings, len(secrets), check=check),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": RESTRICTED,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    metadata = target.mark(name, settings.namespace, **{CACHE_TRY_ANNOTATION: str(attempt)})
    placement = place_pod(target.cache.spec.pod_template)
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **({"serviceAccountName": settings.service_account} if settings.service_account else {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
        **placement,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            # The controller itself retries, with increasing delays.
            "backoffLimit": 0,
            "activeDeadlineSeconds": _DEADLINE_SECONDS,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {"metadata": {"labels": metadata["labels"], "annotations": target.annotations}, "spec": pod},
        },
    }


def name_secrets(target: Target, settings: FillSettings, job: str) -> tuple[str, ...]:
    """Return the names of the pull secrets in accelkit's namespace that a Job reads. GKMCaches use copies."""
    given = [each.name for each in target.cache.spec.image_pull_secrets if each.name]
    if target.cache.metadata.namespace in {"", settings.namespace}:
        return tuple(given)
    return tuple(f"{job}-pull-{number}" for number in range(len(given)))


def list_copies(target: Target, settings: FillSettings, owner: ObjectName, uid: str) -> list[SecretCopy]:
    """Return the copies of pull secrets that the pods of a Job or DaemonSet need."""
    place = target.cache.metadata.namespace
    given = [each.name for each in target.cache.spec.image_pull_secrets if each.name]
    if place in {"", settings.namespace}:
        return []
    copied = name_secrets(target, settings, owner.name)
    return [
        SecretCopy((place, source), (settings.namespace, name), owner, uid)
        for source, name in zip(given, copied, strict=True)
    ]


def _list_arguments(target: Target, settings: FillSettings, secrets: int, *, check: bool) -> list[str]:
    arguments = ["cache", "fill", target.image, VOLUME_PATH, "--mount-path", target.mount_path]
    if check:
        return [*arguments, "--check"]
    arguments += ["--policy", f"{_SETTINGS_PATH}/policies.yaml"]
    if target.cache.metadata.namespace:
        arguments += ["--namespace", target.cache.metadata.namespace]
    if settings.trusted_root is not None:
        arguments += ["--trusted-root", f"{_SETTINGS_PATH}/trusted-root.json"]
    if settings.registry_ca is not None:
        arguments += ["--registry-ca", f"{_SETTINGS_PATH}/registry-ca.pem"]
    for number in range(secrets):
        arguments += ["--registry-config", f"{_SECRETS_PATH}/{number}/{_PULL_SECRET}"]
    return [*arguments, *settings.registry_arguments]


def place_pod(template: PodTemplate | None) -> dict[str, Any]:
    """Return the placement fields from the podTemplate of a cache. Other fields are ignored.

    The priority is ignored because the pod runs in accelkit's namespace, where a tenant could use it to preempt pods of
    other tenants without a quota. Pod affinity is ignored because it would match accelkit's pods.
    """
    if template is None:
        return {}
    given = template.read()
    affinity = {"nodeAffinity": (given.affinity or {}).get("nodeAffinity")}
    placed = {
        "nodeSelector": given.node_selector,
        "tolerations": given.tolerations,
        "affinity": affinity if affinity["nodeAffinity"] else None,
    }
    return {name: value for name, value in placed.items() if value}
