"""Delivery `image`, in which pods mount the verified image by digest, and nodes pull the image in advance.

Container runtimes verify an image only when they pull it, if at all, and do not check cards. Therefore, pods use only
the digest that the controller has verified. The files in an image volume cannot be rewritten. If the files of a cache
contain the capture path, the cache can be mounted only at that path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from accelkit.cachecontroller.cluster_view import ClaimPod, ClusterView, ObjectName, ObservedObject
from accelkit.cachecontroller.delivery import DeliveryPlan, FillSettings, Patch, Watch
from accelkit.cachecontroller.filling.manifests import RESTRICTED, list_copies, name_secrets, place_pod
from accelkit.cachecontroller.filling.namespace_limits import find_excess_of_prefetches
from accelkit.cachecontroller.filling.objects import DAEMON_SETS, Target, Work, read_annotation
from accelkit.errors import CacheError
from accelkit.gkm.conditions import Condition, ConditionType, Reason, find_condition, state
from accelkit.gkm.objects import Cache, PvcStatus
from accelkit.kernelcache.formats import FORMATS
from accelkit.model.keys import CACHE_KEY_ANNOTATION, CACHE_PREFETCH_LABEL
from accelkit.model.object_meta import read_time
from accelkit.texts import list_some

_USER: Final = 65532
_UNKNOWN_FIELD: Final = (
    "this cluster does not support image volumes; use Kubernetes 1.35 or later, or enable the feature gate ImageVolume"
)
_IGNORED_FOLDER: Final = (
    "the container runtime of {nodes} does not support subPath in image volumes, so frameworks would find no kernels; "
    "upgrade to containerd 2.2 or CRI-O 1.33, exclude these nodes with podTemplate, or use another delivery"
)
_RETRY_SECONDS: Final = 600.0
# Interval between passes while the namespace has reached its limit of images, because no event for the cache reports
# that the limit is no longer reached.
_TURN_SECONDS: Final = 60.0
# Interval between passes while nodes pull the image, because a DaemonSet does not report the exit codes of its pods.
_POLL_SECONDS: Final = 10.0
# Exit code of a pod whose container runtime mounts the whole image instead of the folder.
_IGNORED: Final = 78
_MOUNT_PATH: Final = "/volume"
_PREFETCH: Final = "prefetch"


def find_obstacle(cache: Cache) -> str:
    """Return the reason why pods cannot use the image of a cache unchanged; empty if they can."""
    status = cache.status
    if status.cache_format not in FORMATS:
        return f"cannot locate the files in the image: unknown cache format {status.cache_format[:80]!a}"
    if status.relocatable or (status.capture_path and status.capture_path == status.mount_path):
        return ""
    captured = f"was captured at {status.capture_path}" if status.capture_path else "does not state the capture path"
    return (
        f"cannot mount the image at {status.mount_path}: the files contain the path of their capture, and the image "
        f"{captured}. Use delivery node or namespace, which rewrite the files"
    )


def build_image_volume(cache: Cache, digest: str) -> tuple[dict[str, Any], str] | None:
    """Return the image volume source for a cache digest, and the folder in the image that contains the files.

    Image volumes are always read-only.

    Args:
        cache: cache with its current status.
        digest: digest that the pod uses.

    Returns:
        The volume source and the folder; None if pods cannot use the image unchanged.
    """
    ready = find_condition(cache.status.conditions, ConditionType.READY)
    # In a cluster without support for image volumes, the API server drops the volume, and the pod would start without
    # the cache.
    unknown = ready is not None and ready.reason == Reason.IMAGE_VOLUMES_UNSUPPORTED
    if not digest or unknown or find_obstacle(cache):
        return None
    return {"image": _write_source(cache, digest)}, _name_folder(cache)


def _name_folder(cache: Cache) -> str:
    return f"io.{cache.status.cache_format}.cache"


def _write_source(cache: Cache, digest: str) -> dict[str, str]:
    # The content of a digest never changes, so an existing image is not pulled again.
    return {"reference": Target(cache, "", digest, "").image, "pullPolicy": "IfNotPresent"}


class ImageDelivery:
    """Delivery mode that creates a DaemonSet, which causes nodes to pull a cache's image before pods mount the image.

    Args:
        settings: settings of the DaemonSet.
    """

    def __init__(self, settings: FillSettings) -> None:
        self._settings = settings

    @property
    def watches(self) -> tuple[Watch, ...]:
        """Kinds of objects that this mode watches."""
        return (Watch(DAEMON_SETS, namespace=self._settings.namespace),)

    def plan(self, cache: Cache, cluster: ClusterView) -> DeliveryPlan:
        """Return the next changes for a verified cache."""
        work = Work()
        target = Target(cache, "", cache.status.resolved_digest, cache.status.mount_path)
        if obstacle := find_obstacle(cache):
            ready = state(ConditionType.READY, Reason.NOT_RELOCATABLE, obstacle, holds=False)
        else:
            try:
                ready = self._prefetch(target, cluster, work)
            except CacheError as exc:
                ready = state(ConditionType.READY, Reason.INVALID_SPEC, str(exc), holds=False)
        self._collect(cache, cluster, work)
        states = {}
        for namespace in cache.namespaces:
            outdated = _find_outdated(target, namespace, cluster)
            states[namespace] = PvcStatus(pvc_owner="Operator", conditions=[ready, outdated])
        return work.finish(states)

    def plan_removal(self, cache: Cache, cluster: ClusterView) -> DeliveryPlan:
        """Return the deletions of all objects of a cache."""
        work = Work()
        self._collect(cache, cluster, work)
        return DeliveryPlan(delete=tuple(work.delete))

    def list_users(self, cache: Cache, cluster: ClusterView) -> Mapping[str, list[ClaimPod]]:
        """Return the pods that mount a digest of the cache from any repository, keyed by digest."""
        return {
            digest: [
                pod
                for each in cache.namespaces
                for pod in cluster.list_pods(each)
                if any(image.endswith(f"@{digest}") for image in pod.images)
            ]
            for digest in filter(None, (cache.status.resolved_digest, *cache.status.previous_digests))
        }

    def owns(self, cache: Cache, name: ObjectName, observed: ObservedObject) -> bool:
        """Return whether this mode created an object for a cache."""
        ours = (name.kind, name.namespace) == (DAEMON_SETS, self._settings.namespace)
        return ours and read_annotation(observed, CACHE_KEY_ANNOTATION) == cache.key

    def _prefetch(self, target: Target, cluster: ClusterView, work: Work) -> Condition:
        name = ObjectName(DAEMON_SETS, target.name(_PREFETCH), self._settings.namespace)
        work.keep.add(name)
        observed = cluster.find(name)
        if observed is None:
            return self._request(target, name, cluster, work)
        if not _names_image(observed):
            # The API server has dropped the image volume without an error. Try again later, because the API server may
            # be upgraded.
            work.wakes.append(_RETRY_SECONDS)
            if cluster.now - read_time(observed.metadata.creation_timestamp) > _RETRY_SECONDS:
                work.remove(name, observed)
            return state(ConditionType.READY, Reason.IMAGE_VOLUMES_UNSUPPORTED, _UNKNOWN_FIELD, holds=False)
        self._follow_template(target, name, observed, work)
        copies = list_copies(target, self._settings, name, observed.metadata.uid)
        if (refusal := work.copy_secrets(copies, cluster)) is not None:
            return Condition(ConditionType.READY.value, "False", refusal.reason, refusal.message[:1024])
        ready, scheduled = (_count(observed, each) for each in ("numberReady", "desiredNumberScheduled"))
        if ready < scheduled:
            work.wakes.append(_POLL_SECONDS)
        if ignoring := self._find_ignoring(target, cluster):
            text = _IGNORED_FOLDER.format(nodes=list_some(ignoring))
            return state(ConditionType.READY, Reason.IMAGE_VOLUMES_UNSUPPORTED, text, holds=False)
        if not ready:
            text = (
                f"nodes that have pulled the image: 0 of {scheduled}"
                if scheduled
                else "no node is eligible to pull the image"
            )
            return state(ConditionType.READY, Reason.EXTRACTING, text, holds=False)
        return state(
            ConditionType.READY, Reason.READY, f"nodes that have pulled the image: {ready} of {scheduled}", holds=True
        )

    def _request(self, target: Target, name: ObjectName, cluster: ClusterView, work: Work) -> Condition:
        """Create the DaemonSet that pulls the image, unless the namespace of the cache has reached its limit."""
        if (refusal := work.read_refusal(name, cluster)) is not None:
            return Condition(ConditionType.READY.value, "False", refusal.reason, refusal.message[:1024])
        if excess := find_excess_of_prefetches(target, self._settings.namespace, cluster):
            work.wakes.append(_TURN_SECONDS)
            return state(ConditionType.READY, Reason.OVER_BUDGET, excess, holds=False)
        work.create.append((name, self._write(target, name)))
        return state(
            ConditionType.READY, Reason.PENDING, "the DaemonSet that pulls the image is being created", holds=False
        )

    def _find_ignoring(self, target: Target, cluster: ClusterView) -> list[str]:
        """Return the nodes on which the container runtime mounts the whole image instead of the folder."""
        pods = cluster.list_pods(self._settings.namespace)
        return sorted({each.node for each in pods if target.image in each.images and _IGNORED in each.exit_codes})

    def _follow_template(self, target: Target, name: ObjectName, observed: ObservedObject, work: Work) -> None:
        """Update the placement of the DaemonSet's pods based on the podTemplate of the cache."""
        present = ((observed.spec.get("template") or {}).get("spec")) or {}
        desired = place_pod(target.cache.spec.pod_template)
        fields = ("nodeSelector", "tolerations", "affinity")
        if any((present.get(each) or None) != desired.get(each) for each in fields):
            spec = {"template": {"spec": {each: desired.get(each) for each in fields}}}
            work.patch.append(Patch(name, {"spec": spec}, observed.metadata.uid))

    def _write(self, target: Target, name: ObjectName) -> dict[str, Any]:
        metadata = target.mark(name.name, name.namespace)
        chosen = {CACHE_PREFETCH_LABEL: name.name}
        labels = {**metadata["labels"], **chosen}
        folder = _name_folder(target.cache)
        container = {
            "name": "hold",
            "image": self._settings.image,
            # The pod keeps the image on the node. Container runtimes without support for folders do not report an
            # error.
            "command": [
                "sh",
                "-c",
                f'test ! -e "$0" || exit {_IGNORED}; exec sleep infinity',
                f"{_MOUNT_PATH}/{folder}",
            ],
            "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "32Mi"}},
            "securityContext": RESTRICTED,
            "volumeMounts": [
                {"name": "kernel-cache", "mountPath": _MOUNT_PATH, "subPath": folder, "readOnly": True},
            ],
        }
        pod = {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            **({"serviceAccountName": self._settings.service_account} if self._settings.service_account else {}),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "kernel-cache", "image": _write_source(target.cache, target.digest)}],
            **place_pod(target.cache.spec.pod_template),
        }
        if secrets := name_secrets(target, self._settings, name.name):
            pod["imagePullSecrets"] = [{"name": each} for each in secrets]
        spec = {
            "selector": {"matchLabels": chosen},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {"metadata": {"labels": labels, "annotations": target.annotations}, "spec": pod},
        }
        return {"apiVersion": DAEMON_SETS.api_version, "kind": DAEMON_SETS.kind, "metadata": metadata, "spec": spec}

    def _collect(self, cache: Cache, cluster: ClusterView, work: Work) -> None:
        for name, observed in cluster.list_of_cache(DAEMON_SETS, cache.key):
            if name not in work.keep and name.namespace == self._settings.namespace:
                work.remove(name, observed)


def _names_image(observed: ObservedObject) -> bool:
    volumes = (((observed.spec.get("template") or {}).get("spec")) or {}).get("volumes") or []
    return any(isinstance(each, dict) and each.get("image") for each in volumes)


def _count(observed: ObservedObject, name: str) -> int:
    value = observed.status.get(name, 0)
    return value if isinstance(value, int) else 0


def _find_outdated(target: Target, namespace: str, cluster: ClusterView) -> Condition:
    """Return the condition Outdated, which reports whether pods use a previous digest of the cache."""
    repository = target.image.partition("@")[0]
    pods = sorted(
        pod.name
        for pod in cluster.list_pods(namespace)
        if any(each.startswith(f"{repository}@") and each != target.image for each in pod.images)
    )
    if not pods:
        return state(ConditionType.OUTDATED, Reason.CURRENT, "no pod uses a previous digest", holds=False)
    return state(ConditionType.OUTDATED, Reason.OUTDATED, f"pods with a previous digest: {list_some(pods)}", holds=True)
