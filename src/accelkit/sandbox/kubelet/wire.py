"""The fields of Kubernetes objects that the kubelet reads, in their JSON format. Other fields are ignored."""

from __future__ import annotations

from datetime import datetime

import msgspec

from accelkit.kube.paths import build_pod_path
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import PodCondition

__all__ = ["Container", "EnvVar", "HttpGet", "Pod", "PodMeta", "PodSpec", "PodStatus", "Probe", "Volume"]


class PodMeta(ObjectMeta, kw_only=True, rename="camel"):
    """The metadata of a pod, including the fields for its deletion."""


class FieldRef(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A reference to a field of the pod."""

    field_path: str


class EnvVarSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The source of the value of an environment variable. Only `field_ref` is supported."""

    field_ref: FieldRef | None = None


class EnvVar(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An environment variable of a container."""

    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class HttpGet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An HTTP probe. `port` may be the name of a container port."""

    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"


class Probe(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A readiness probe of a container."""

    http_get: HttpGet | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    failure_threshold: int = 3
    success_threshold: int = 1


class ContainerPort(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A container port with a name."""

    container_port: int
    name: str = ""


class VolumeMount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A mount of a volume in a container."""

    name: str
    mount_path: str


class ResourceRequirements(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Quantities by resource name."""

    limits: dict[str, int | str] = {}
    requests: dict[str, int | str] = {}


class Container(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A container. An init container with the `restart_policy` Always is a sidecar."""

    name: str
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[EnvVar] = []
    ports: list[ContainerPort] = []
    resources: ResourceRequirements = ResourceRequirements()
    volume_mounts: list[VolumeMount] = []
    readiness_probe: Probe | None = None
    restart_policy: str = ""
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"

    @property
    def sidecar(self) -> bool:
        """Whether this init container is a sidecar, which runs alongside the other containers."""
        return self.restart_policy == "Always"


class HostPath(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A path on the node, with its required type. An empty type allows all types."""

    path: str
    type: str = ""


class EmptyDir(msgspec.Struct, frozen=True):
    """A folder that exists as long as its pod. The medium and the size limit are ignored."""


class TokenSource(msgspec.Struct, frozen=True):
    """A token for the pod's service account. Its path is always `token`."""


class ProjectedSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One source of a projected volume. A source with a token identifies the volume of a service account."""

    service_account_token: TokenSource | None = None


class Projected(msgspec.Struct, frozen=True, kw_only=True):
    """A projected volume, which has several sources."""

    sources: list[ProjectedSource] = []

    @property
    def account(self) -> bool:
        """Whether this is the service account volume, which contains the token, the CA and the namespace."""
        return any(source.service_account_token is not None for source in self.sources)


class Volume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A volume. If no optional field is set, the volume type is not supported."""

    name: str
    host_path: HostPath | None = None
    empty_dir: EmptyDir | None = None
    projected: Projected | None = None


class PodSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The specification of a pod."""

    node_name: str = ""
    service_account_name: str = "default"
    restart_policy: str = "Always"
    init_containers: list[Container] = []
    containers: list[Container] = []
    volumes: list[Volume] = []


class PodStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of a pod."""

    phase: str = "Pending"
    start_time: datetime | None = None
    conditions: tuple[PodCondition, ...] = ()


class Pod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def terminal(self) -> bool:
        """Whether the pod has succeeded or failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def path(self) -> str:
        """The pod's path on the API server."""
        return build_pod_path(self.metadata.namespace, self.metadata.name)
