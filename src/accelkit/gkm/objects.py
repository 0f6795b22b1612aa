"""GKM's custom resources (`gkm.io/v1alpha1`) with their JSON field names, and optional fields that accelkit adds.

Users write `spec`. The controller writes the status of caches, and the agent on each node writes the status of its
node. Annotations are not trusted.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from accelkit.errors import CacheError
from accelkit.gkm.conditions import Condition
from accelkit.model.object_meta import ObjectIdentity, ObjectMeta

CACHE_KIND: Final = "GKMCache"
CLUSTER_CACHE_KIND: Final = "ClusterGKMCache"

# Size limit for the spec of a podTemplate. Users can write 1 MB of affinity rules, which require ten times as much
# memory in Python.
MOST_PLACEMENT_BYTES: Final = 64 << 10
_finalizers = msgspec.json.Decoder(list[str] | None)


class Delivery(StrEnum):
    """How the files of a cache are delivered to pods.

    NODE: a copy on each node, created by the node's agent. NAMESPACE: one claim in each workload namespace, filled by a
    Job. IMAGE: an image volume of the pod. AUTO: NAMESPACE if `accessModes` has ReadOnlyMany or ReadWriteMany and
    `storageClassName` is set, otherwise NODE.
    """

    AUTO = "auto"
    NODE = "node"
    NAMESPACE = "namespace"
    IMAGE = "image"


_NOTHING: Final = msgspec.Raw(b"null")


class CacheMeta(ObjectIdentity, rename="camel", omit_defaults=True):
    """`metadata` of a cache. Labels and annotations are not decoded, because users can fill them with 1 MB of text.

    Attributes:
        finalizers_text: the finalizers as JSON, which are not decoded for the same reason. An update must contain all
            finalizers, including accelkit's own finalizer.
    """

    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers_text: msgspec.Raw = msgspec.field(name="finalizers", default=_NOTHING)

    def __post_init__(self) -> None:
        """Copy the finalizers, so that the memory of the received page can be freed."""
        if self.finalizers_text is not _NOTHING:
            self.finalizers_text = msgspec.Raw(bytes(self.finalizers_text))

    @property
    def finalizers(self) -> list[str]:
        """The finalizers, which delay the deletion of the cache."""
        return _finalizers.decode(self.finalizers_text) or []


class ReportMeta(ObjectMeta, rename="camel", omit_defaults=True):
    """`metadata` of a node's report or of a SignerPolicy."""

    generation: int = 0


class PodPlacement(msgspec.Struct, rename="camel", omit_defaults=True):
    """`spec` of a podTemplate, with the fields that restrict the nodes of Jobs that fill claims."""

    node_selector: dict[str, str] | None = None
    tolerations: list[dict[str, Any]] | None = None
    affinity: dict[str, Any] | None = None


_placement = msgspec.json.Decoder(PodPlacement | None)
_TOO_LARGE: Final = msgspec.Raw(b'"too large"')


class PodTemplate(msgspec.Struct, omit_defaults=True):
    """`podTemplate` of a cache. It is stored as JSON and decoded only when a pod is created from it."""

    spec: msgspec.Raw = _NOTHING

    def __post_init__(self) -> None:
        """Copy the spec, so that the memory of the received page can be freed. Discard a spec that is too large."""
        if self.spec is not _NOTHING:
            whole = bytes(self.spec)
            self.spec = msgspec.Raw(whole) if len(whole) <= MOST_PLACEMENT_BYTES else _TOO_LARGE

    def read(self) -> PodPlacement:
        """Return the fields that restrict the nodes on which pods may run.

        Raises:
            CacheError: the spec is too large, or does not have the fields of a pod's spec.
        """
        if self.spec == _TOO_LARGE:
            raise CacheError(f"spec.podTemplate.spec is larger than {MOST_PLACEMENT_BYTES} bytes; shorten it")
        try:
            return _placement.decode(self.spec) or PodPlacement()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise CacheError(f"cannot read spec.podTemplate.spec: {exc}") from exc


class SecretName(msgspec.Struct, omit_defaults=True):
    """The name of a Secret in the namespace of the cache or, for a ClusterGKMCache, in accelkit's namespace."""

    name: str = ""


class CacheSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """`spec` of a GKMCache or ClusterGKMCache.

    Attributes:
        image: the image of the cache, by tag or digest.
        pod_template: restrictions on the nodes on which Jobs that fill claims run.
        storage_class_name: the storage class of claims that Jobs fill; empty for the default storage class of the
            cluster.
        access_modes: the access modes of claims that Jobs fill.
        workload_namespaces: the namespaces in which pods use a ClusterGKMCache. Pods use a GKMCache only in its own
            namespace.
        image_pull_secrets: Secrets with credentials for the registry.
        mount_path: the path at which workloads mount the cache; empty for the capture path that the image specifies.
        delivery: how the files are delivered to pods.
        size: the size of claims that Jobs fill, as a quantity; empty to derive it from the size that the image
            specifies.
    """

    image: str = ""
    pod_template: PodTemplate | None = None
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    workload_namespaces: tuple[str, ...] = ()
    image_pull_secrets: tuple[SecretName, ...] = ()
    mount_path: str = ""
    delivery: Delivery = Delivery.AUTO
    size: str = ""


class PvcStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """State of a cache in a namespace. `pvcOwner` is Agent if nodes store the files; Operator if a Job wrote them."""

    pv_name: str = ""
    pvc_name: str = ""
    job_name: str = ""
    pvc_owner: str = "Unknown"
    conditions: list[Condition] = []


class CacheCounts(msgspec.Struct, rename="camel"):
    """Node and pod counts for a cache. Zeros are not omitted, so that a merge patch replaces previous counts."""

    node_cnt: int = 0
    node_in_use_cnt: int = 0
    node_not_in_use_cnt: int = 0
    node_error_cnt: int = 0
    pod_running_cnt: int = 0
    pod_deleting_cnt: int = 0
    pod_outdated_cnt: int = 0


class CacheVerification(msgspec.Struct, rename="camel", omit_defaults=True):
    """Verified signatures of the resolved digest, with the digest of the policies.

    Attributes:
        digest: the digest that was verified.
        policy_digest: the digest of the policies that cover the image. If it changes, the image is verified again.
        signatures: the policy, signer and identity of each accepted signature.
        verified_at: the time of the verification, RFC 3339.
    """

    digest: str = ""
    policy_digest: str = ""
    signatures: list[dict[str, str]] = []
    verified_at: str = ""


class CacheMount(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A folder of a cache, and the path at which a container must mount it.

    Attributes:
        sub_path: the folder below the root of the cache; empty for the whole cache.
        path: the absolute path in the container.
    """

    path: str
    sub_path: str = ""


class CacheStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """`status` of a GKMCache or ClusterGKMCache.

    Attributes:
        resolved_digest: the verified digest that nodes extract and pods use. No other field contains this digest.
        resolved_image: the `spec.image` that was resolved to that digest.
        previous_digests: previous digests that pods may still use.
        mount_path: the path at which workloads mount the cache, which the controller determines.
        cache_bytes: the size of the files of the cache.
        observed_generation: the generation of `spec` that this status describes.
        cache_format: the format of the cache: `triton`, `vllm` or `habana`. It determines the folder in the image that
            contains the files.
        capture_path: the path at which the cache was captured; empty if the image does not specify it.
        relocatable: whether the unchanged files work at a path other than the capture path; None if this is unknown.
        mounts: the folders of the cache that a container mounts, beginning with the root; empty if the image does not
            specify them.
        variables: the environment variables that configure the framework to use the mounted folders.
        recorded_environment: the environment variables that were set when the cache was captured, if the image or the
            files contain them.
    """

    resolved_digest: str = ""
    resolved_image: str = ""
    previous_digests: list[str] = []
    mount_path: str = ""
    cache_bytes: int = 0
    delivery: str = ""
    pvc_owner: str = "Unknown"
    pvc_status: dict[str, PvcStatus] = {}
    verification: CacheVerification | None = None
    conditions: list[Condition] = []
    counts: CacheCounts = msgspec.field(default_factory=CacheCounts)
    observed_generation: int = 0
    last_updated: str = ""
    cache_format: str = ""
    capture_path: str = ""
    relocatable: bool | None = None
    mounts: list[CacheMount] = []
    variables: dict[str, str] = {}
    recorded_environment: dict[str, str] = {}


class Cache(msgspec.Struct, rename="camel", omit_defaults=True):
    """A GKMCache, or a ClusterGKMCache, which has no namespace."""

    metadata: CacheMeta
    spec: CacheSpec = msgspec.field(default_factory=CacheSpec)
    status: CacheStatus = msgspec.field(default_factory=CacheStatus)
    kind: str = ""

    @property
    def of_cluster(self) -> bool:
        """Whether the cache is a ClusterGKMCache."""
        return not self.metadata.namespace

    @property
    def key(self) -> str:
        """The key of the cache: `NAMESPACE/NAME`, or `/NAME` for a ClusterGKMCache."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces in which pods use the cache."""
        return tuple(dict.fromkeys(self.spec.workload_namespaces)) if self.of_cluster else (self.metadata.namespace,)


class GpuStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """Cards on a node that have the same product name and driver version."""

    gpu_type: str = ""
    driver_version: str = ""
    ids: list[int] = []


class CachePod(msgspec.Struct, rename="camel", omit_defaults=True):
    """A pod on the node that mounts the cache, and the number of files that it compiled (None if unknown)."""

    pod_namespace: str = ""
    pod_name: str = ""
    volume_id: str = ""
    missed_files: int | None = None


class NodeCacheStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """One digest of one cache on one node.

    Attributes:
        compatible_gpus: the indices of the cards that can load the kernels.
        incompatible_gpus: the indices of the other cards.
        volume_size: the size of the files on the node, in bytes.
        path: the path of the files; empty if the node does not have them.
        pods: the pods on the node that mount the cache.
        conditions: Compatible, Extracted, Ready, Outdated, Effective and, if files were changed, Degraded. A previous
            digest has only the condition Outdated.
        recorded_environment: the environment variables that were set when the cache was captured, read from its files;
            empty if the status of the cache already contains them.
    """

    compatible_gpus: list[int] = msgspec.field(name="compatibleGPUs", default_factory=list)
    incompatible_gpus: list[int] = msgspec.field(name="incompatibleGPUs", default_factory=list)
    last_updated: str = ""
    pvc_status: dict[str, PvcStatus] = {}
    volume_size: int = 0
    path: str = ""
    pods: list[CachePod] = []
    conditions: list[Condition] = []
    recorded_environment: dict[str, str] = {}


class NodeStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """`status` of a GKMCacheNode: all caches of the namespace on one node, keyed by name and digest."""

    node_name: str = ""
    counts: CacheCounts = msgspec.field(default_factory=CacheCounts)
    gpus: list[GpuStatus] = []
    caches: dict[str, dict[str, NodeCacheStatus]] = {}
    last_updated: str = ""


class CacheNode(msgspec.Struct, rename="camel", omit_defaults=True):
    """A GKMCacheNode (one per namespace and node) or a ClusterGKMCacheNode, both of which are named after the node."""

    metadata: ReportMeta
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)
    kind: str = ""


class SignerPolicyObject(msgspec.Struct, rename="camel", omit_defaults=True):
    """A SignerPolicy in the cluster (`accelkit.io/v1alpha1`). `spec` has the same format as in a policy file."""

    metadata: ReportMeta
    spec: dict[str, Any] = {}
    kind: str = ""
