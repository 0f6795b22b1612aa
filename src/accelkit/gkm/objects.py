"""GKM's custom resources, `gkm.io/v1alpha1`, under their wire names, with what accelkit adds; all of that is optional.

Users write `spec`, the controller writes the status of caches, and each node's agent that of its node. No annotation is
believed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from accelkit.errors import CacheError
from accelkit.gkm.conditions import Condition
from accelkit.model.object_meta import ObjectIdentity, ObjectMeta

API_VERSION: Final = "gkm.io/v1alpha1"
CACHE_KIND: Final = "GKMCache"
CLUSTER_CACHE_KIND: Final = "ClusterGKMCache"

# Of a podTemplate's spec. Users may write a megabyte of affinities, of which Python makes ten.
MOST_PLACEMENT_BYTES: Final = 64 << 10
_finalizers = msgspec.json.Decoder(list[str] | None)


class Delivery(StrEnum):
    """How the files of a cache come to the pods.

    NODE: a copy on each node, prepared by its agent. NAMESPACE: one claim in each workload namespace, filled by a Job.
    IMAGE: an image volume of the pod. AUTO: NAMESPACE where `accessModes` has ReadOnlyMany or ReadWriteMany and
    `storageClassName` is given, else NODE.
    """

    AUTO = "auto"
    NODE = "node"
    NAMESPACE = "namespace"
    IMAGE = "image"


_NOTHING: Final = msgspec.Raw(b"null")


class CacheMeta(ObjectIdentity, rename="camel", omit_defaults=True):
    """metadata of a cache; its labels and annotations, of which users may write a megabyte, are not read.

    Attributes:
        finalizers_text: as it came, for the same reason: all have to be written again with ours.
    """

    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers_text: msgspec.Raw = msgspec.field(name="finalizers", default=_NOTHING)

    def __post_init__(self) -> None:
        """Keep that and not the page of which it is a part."""
        if self.finalizers_text is not _NOTHING:
            self.finalizers_text = msgspec.Raw(bytes(self.finalizers_text))

    @property
    def finalizers(self) -> list[str]:
        """What keeps it from going."""
        return _finalizers.decode(self.finalizers_text) or []


class ReportMeta(ObjectMeta, rename="camel", omit_defaults=True):
    """metadata of a node's report, or of a SignerPolicy."""

    generation: int = 0


class PodPlacement(msgspec.Struct, rename="camel", omit_defaults=True):
    """spec of a podTemplate: where Jobs that fill claims may run, as a pod has it."""

    node_selector: dict[str, str] | None = None
    tolerations: list[dict[str, Any]] | None = None
    affinity: dict[str, Any] | None = None


_placement = msgspec.json.Decoder(PodPlacement | None)
_TOO_LARGE: Final = msgspec.Raw(b'"too large"')


class PodTemplate(msgspec.Struct, omit_defaults=True):
    """podTemplate of a cache: kept as it came, and taken apart where a pod is made by it."""

    spec: msgspec.Raw = _NOTHING

    def __post_init__(self) -> None:
        """Keep it and not the page of which it is a part, and nothing where it is too large."""
        if self.spec is not _NOTHING:
            whole = bytes(self.spec)
            self.spec = msgspec.Raw(whole) if len(whole) <= MOST_PLACEMENT_BYTES else _TOO_LARGE

    def read(self) -> PodPlacement:
        """Return where pods may run.

        Raises:
            CacheError: it is too large, or is not what pods have; the sentence says so.
        """
        if self.spec == _TOO_LARGE:
            raise CacheError(f"spec.podTemplate.spec takes more than {MOST_PLACEMENT_BYTES} bytes; write less of it")
        try:
            return _placement.decode(self.spec) or PodPlacement()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise CacheError(f"spec.podTemplate.spec cannot be read: {exc}") from exc


class SecretName(msgspec.Struct, omit_defaults=True):
    """The name of a Secret in the namespace of the cache; of a ClusterGKMCache in that of accelkit."""

    name: str = ""


class CacheSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """spec of both kinds of caches.

    Attributes:
        image: by tag or digest.
        pod_template: where Jobs that fill claims run.
        storage_class_name: of claims that Jobs fill; empty for the cluster's default.
        access_modes: of those claims.
        workload_namespaces: where pods use a ClusterGKMCache; of a GKMCache it is its own namespace alone.
        image_pull_secrets: log-ins of the registry.
        mount_path: where workloads see the cache; empty for the path at which the image says it was captured.
        delivery: how the files come to the pods.
        size: of claims that Jobs fill, as a quantity; empty for what the image says.
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
    """What became of a cache in one namespace; `pvcOwner` is Agent where nodes hold the files, Operator for a Job's."""

    pv_name: str = ""
    pvc_name: str = ""
    job_name: str = ""
    pvc_owner: str = "Unknown"
    conditions: list[Condition] = []


class CacheCounts(msgspec.Struct, rename="camel"):
    """Nodes and pods of a cache; zeros are written too, so that a merge patch leaves no former number behind."""

    node_cnt: int = 0
    node_in_use_cnt: int = 0
    node_not_in_use_cnt: int = 0
    node_error_cnt: int = 0
    pod_running_cnt: int = 0
    pod_deleting_cnt: int = 0
    pod_outdated_cnt: int = 0


class CacheVerification(msgspec.Struct, rename="camel", omit_defaults=True):
    """Who signed the resolved digest, and by which policies that was judged.

    Attributes:
        digest: what was judged.
        policy_digest: of the policies that cover the image; another one is judged anew.
        signatures: policy, signer and identity of each signature that counts.
        verified_at: RFC 3339.
    """

    digest: str = ""
    policy_digest: str = ""
    signatures: list[dict[str, str]] = []
    verified_at: str = ""


class CacheMount(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A folder of a cache and where a container has to see it.

    Attributes:
        sub_path: of the cache's root; empty for all of it.
        path: absolute, in the container.
    """

    path: str
    sub_path: str = ""


class CacheStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """status of both kinds of caches.

    Attributes:
        resolved_digest: what nodes prepare and pods get, once it is verified; nothing else says so.
        resolved_image: `spec.image` of which that is the digest.
        previous_digests: of those that pods may still use.
        mount_path: where workloads see the cache, as it was decided.
        cache_bytes: what its files take.
        observed_generation: of `spec`, that all of this is about.
        cache_format: `triton`, `vllm`, `habana`; the folder of the image in which its files lie is named so.
        capture_path: at which the image says it was captured; empty where it does not say.
        relocatable: whether its files may be seen at another path than that as they are; None where nobody knows.
        mounts: what a container mounts of it, the root first; empty where the image does not say.
        variables: what tells its framework of them.
        recorded_environment: variables under which it was captured, as far as its image or its files say.
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
        """Whether it is a ClusterGKMCache."""
        return not self.metadata.namespace

    @property
    def key(self) -> str:
        """`NAMESPACE/NAME`, or `/NAME` of a ClusterGKMCache."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces in which pods use it."""
        return tuple(dict.fromkeys(self.spec.workload_namespaces)) if self.of_cluster else (self.metadata.namespace,)


class GpuStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """Cards of a node of one product and driver."""

    gpu_type: str = ""
    driver_version: str = ""
    ids: list[int] = []


class CachePod(msgspec.Struct, rename="camel", omit_defaults=True):
    """A pod of the node that mounts the cache, and how many files it had to make itself; None where nobody looked."""

    pod_namespace: str = ""
    pod_name: str = ""
    volume_id: str = ""
    missed_files: int | None = None


class NodeCacheStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """One digest of one cache on one node.

    Attributes:
        compatible_gpus: numbers of the cards that can load its kernels.
        incompatible_gpus: of the others.
        volume_size: bytes of its files on the node.
        path: where they lie; empty where they do not.
        pods: of the node, that mount it.
        conditions: Compatible, Extracted, Ready, Outdated, Effective, and Degraded where files were changed; of a
            former digest Outdated alone.
        recorded_environment: variables under which it was captured, as its files say, until the cache's status has
            them.
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
    """status of a GKMCacheNode: of all caches of its namespace, on one node, by name and digest."""

    node_name: str = ""
    counts: CacheCounts = msgspec.field(default_factory=CacheCounts)
    gpus: list[GpuStatus] = []
    caches: dict[str, dict[str, NodeCacheStatus]] = {}
    last_updated: str = ""


class CacheNode(msgspec.Struct, rename="camel", omit_defaults=True):
    """A GKMCacheNode, one for each namespace and node, or a ClusterGKMCacheNode; its name is the node's."""

    metadata: ReportMeta
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)
    kind: str = ""


class SignerPolicyObject(msgspec.Struct, rename="camel", omit_defaults=True):
    """A SignerPolicy of the cluster, `accelkit.io/v1alpha1`; `spec` is that of the policy file."""

    metadata: ReportMeta
    spec: dict[str, Any] = {}
    kind: str = ""
